//! The header fields of a message, as the cache reads them.
//!
//! In:  a caller's own message type that implements [`Headers`]; a slice of names and values
//!      does already.
//! Out: the lines of a field, borrowed.
//!
//! ```
//! use ghost_core::cache::Headers;
//!
//! let lines = [("Vary", &b"Accept"[..]), ("vary", b"Cookie"), ("Date", b"0")];
//! assert_eq!(lines.values("vary").count(), 2);
//! assert_eq!(lines.only("date"), Some(&b"0"[..]));
//! assert_eq!(lines.only("vary"), None);
//! assert!(lines.has("Vary") && !lines.has("Age"));
//! ```

/// The header fields of a request or a response.
pub trait Headers {
    /// The values of all lines of a field, in order. The name has any case.
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]>;

    /// Whether there is a line of this name.
    fn has(&self, name: &str) -> bool {
        self.values(name).next().is_some()
    }

    /// The value of a field that may occur once; None if it is absent or repeated.
    fn only<'a>(&'a self, name: &'a str) -> Option<&'a [u8]> {
        let mut values = self.values(name);
        values.next().filter(|_| values.next().is_none())
    }
}

impl Headers for [(&str, &[u8])] {
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }
}

impl<const N: usize> Headers for [(&str, &[u8]); N] {
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.as_slice().values(name)
    }
}

impl Headers for Vec<(String, Vec<u8>)> {
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let named = self.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_slice())
    }
}
