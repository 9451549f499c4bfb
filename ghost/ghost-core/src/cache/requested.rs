//! What a stored response remembers of the request that it was fetched for.
//!
//! In:  the facts by which invalidations find an object.
//! Out: a line of text, for a header that no client sees; and the facts read from it when the
//!      object becomes visible, and later by those who ask about it.
//!
//! ```
//! use ghost_core::cache::index::Moment;
//! use ghost_core::cache::requested::Requested;
//! use ghost_core::wire::TagHeader;
//!
//! let requested = Requested {
//!     stamp: 0xabc,
//!     started: Moment::from_nanos(7),
//!     tag_headers: &[TagHeader::SurrogateKey, TagHeader::Xkey],
//!     shape: 0,
//!     host: b"tea.example",
//!     rule: "shop/tea/0",
//!     policy: "shop/pages",
//!     target: b"/list?a=1",
//! };
//! let mut text = Vec::new();
//! requested.write(&mut text);
//! assert_eq!(text, b"0000000000000abc 7 sx 0 tea.example shop/tea/0 shop/pages /list?a=1");
//!
//! let mut headers = Vec::new();
//! let read = Requested::parse(&text, &mut headers).unwrap();
//! assert_eq!((read.rule, read.route(), read.target), ("shop/tea/0", "shop/tea", &b"/list?a=1"[..]));
//! assert_eq!(read.policy, "shop/pages");
//! assert_eq!(read.tag_headers, requested.tag_headers);
//! assert!(Requested::parse(b"abc 7", &mut headers).is_none());
//! ```

use std::io::Write as _;

use super::index::Moment;
use super::syntax::digits;
use crate::wire::TagHeader;

const LETTERS: [(TagHeader, u8); 7] = [
    (TagHeader::SurrogateKey, b's'),
    (TagHeader::CacheTag, b't'),
    (TagHeader::Xkey, b'x'),
    (TagHeader::CacheGroups, b'g'),
    (TagHeader::CacheTags, b'd'),
    (TagHeader::XCacheTags, b'f'),
    (TagHeader::XMagentoTags, b'm'),
];

/// The facts. See the [module](self) for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requested<'a> {
    /// Who wrote it.
    pub stamp: u64,
    /// When the fetch began.
    pub started: Moment,
    /// The fields of the response that have tags.
    pub tag_headers: &'a [TagHeader],
    /// A number for the parameters that its policy ignores; 0 if all of them count.
    pub shape: u64,
    /// As [`Host`](crate::Host) normalises it.
    pub host: &'a [u8],
    /// The [identity](crate::Rule::identity) of the rule.
    pub rule: &'a str,
    /// The name of the policy that it is stored by.
    pub policy: &'a str,
    /// Path and query, as [`canonical`](super::key::QueryPolicy::canonical) returns them.
    pub target: &'a [u8],
}

impl<'a> Requested<'a> {
    /// Write the text.
    pub fn write(&self, to: &mut Vec<u8>) {
        // Writing to a vector never fails.
        let _ = write!(to, "{:016x} {} ", self.stamp, self.started.nanos());
        let letters = LETTERS.iter().filter(|(header, _)| self.tag_headers.contains(header));
        let before = to.len();
        to.extend(letters.map(|(_, letter)| *letter));
        if to.len() == before {
            to.push(b'-');
        }
        let _ = write!(to, " {} ", self.shape);
        for part in [self.host, self.rule.as_bytes(), self.policy.as_bytes()] {
            to.extend_from_slice(part);
            to.push(b' ');
        }
        to.extend_from_slice(self.target);
    }

    /// Read the text; None if it isn't one that [`write`](Self::write) wrote.
    #[must_use]
    pub fn parse(text: &'a [u8], headers: &'a mut Vec<TagHeader>) -> Option<Self> {
        let mut parts = text.splitn(8, |&byte| byte == b' ');
        let mut next = || parts.next();
        let stamp = u64::from_str_radix(std::str::from_utf8(next()?).ok()?, 16).ok()?;
        let started = Moment::from_nanos(digits(next()?)?);
        let letters = next()?;
        headers.clear();
        let named = LETTERS.iter().filter(|(_, letter)| letters.contains(letter));
        headers.extend(named.map(|(header, _)| *header));
        Some(Self {
            stamp,
            started,
            shape: digits(next()?)?,
            host: next()?,
            rule: std::str::from_utf8(next()?).ok()?,
            policy: std::str::from_utf8(next()?).ok()?,
            target: next()?,
            tag_headers: headers,
        })
    }

    /// `namespace/name` of the route.
    #[must_use]
    pub fn route(&self) -> &'a str {
        self.rule.rsplit_once('/').map_or(self.rule, |(route, _)| route)
    }
}
