//! Comma-separated lists whose members may hold quoted strings (RFC 9110, sections 5.6.1 and 5.6.4).
//!
//! In:  one header line.
//! Out: its members without surrounding whitespace; empty members are left out.
//!
//! A quote that is never closed can't hide what follows it: the member ends at its first
//! comma and counts as malformed, and so does each later member with a quote. Reading a line
//! takes time in proportion to its length, whatever its quotes are.
//!
//! ```
//! use ghost_core::cache::syntax::list::members;
//!
//! let texts: Vec<_> = members(br#"a, b="x, \"y", ,c"#).map(|member| member.text).collect();
//! assert_eq!(texts, [&b"a"[..], br#"b="x, \"y""#, b"c"]);
//!
//! let open: Vec<_> = members(br#"x="abc, no-store"#).collect();
//! assert!(open[0].malformed);
//! assert_eq!(open[1].text, b"no-store");
//! ```

/// A member of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// Without surrounding whitespace.
    pub text: &'a [u8],
    /// Whether it has a quote that is never closed.
    pub malformed: bool,
}

/// The members of a line.
pub fn members(line: &[u8]) -> impl Iterator<Item = Member<'_>> {
    Members { rest: line, is_open: false }.filter(|member| !member.text.is_empty())
}

struct Members<'a> {
    rest: &'a [u8],
    /// Whether a quote in front of the rest is never closed: every comma then separates.
    is_open: bool,
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let closed = if self.is_open { None } else { end_of_member(self.rest) };
        self.is_open = closed.is_none();
        let end = closed.unwrap_or_else(|| {
            self.rest.iter().position(|&byte| byte == b',').unwrap_or(self.rest.len())
        });
        let text = self.rest[..end].trim_ascii();
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        Some(Member { text, malformed: self.is_open && text.contains(&b'"') })
    }
}

/// Where the first member ends; None if a quote is never closed.
fn end_of_member(line: &[u8]) -> Option<usize> {
    let mut quoted = false;
    let mut escaped = false;
    for (at, &byte) in line.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => return Some(at),
            _ => {}
        }
    }
    (!quoted).then_some(line.len())
}
