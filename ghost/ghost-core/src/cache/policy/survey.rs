//! Which headers a request has that decide about the cache: most have few of them.
//!
//! In:  the header lines of a request.
//! Out: [`Survey`].
//!
//! ```
//! use ghost_core::cache::Survey;
//!
//! let survey = Survey::of([(&b"If-Match"[..], &b"*"[..]), (b"content-length", b"0")]);
//! assert!(survey.precondition && !survey.body && !survey.directives);
//! ```

/// What a proxy finds out about a request before it asks the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // they are independent facts
pub struct Survey {
    /// Cache-Control or Pragma.
    pub directives: bool,
    /// A condition that only the origin can evaluate.
    pub precondition: bool,
    /// What frames a body.
    pub body: bool,
    /// Whether the connection may become a WebSocket. The proxy knows.
    pub upgrade: bool,
}

impl Survey {
    /// Of these names and values.
    pub fn of<'h>(fields: impl IntoIterator<Item = (&'h [u8], &'h [u8])>) -> Self {
        let mut found = Self::default();
        fields.into_iter().for_each(|(name, value)| found.note(name, value));
        found
    }

    /// Whether it is worth the while to note a header that begins so: the first letter rules
    /// most of them out.
    #[must_use]
    pub fn may_concern(line: &[u8]) -> bool {
        matches!(line.first().map(u8::to_ascii_lowercase), Some(b'c' | b'i' | b'p' | b't'))
    }

    /// Note a header.
    pub fn note(&mut self, name: &[u8], value: &[u8]) {
        let is = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
        match name.first().map(u8::to_ascii_lowercase) {
            Some(b'c') => {
                self.directives |= is("cache-control");
                self.body |= is("content-length") && value.trim_ascii() != b"0";
            }
            Some(b'i') => self.precondition |= is("if-match") || is("if-unmodified-since"),
            Some(b'p') => self.directives |= is("pragma"),
            Some(b't') => self.body |= is("transfer-encoding"),
            _ => {}
        }
    }
}
