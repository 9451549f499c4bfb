//! The field Cache-Status (RFC 9211): what the cache did with a request, and why.
//!
//! In:  a [`CacheStatus`].
//! Out: the value of the field, written to the caller's buffer. It is a valid structured
//!      field whatever the key and the detail are.
//!
//! ```
//! use ghost_core::cache::status::{CacheStatus, Forward};
//!
//! let mut value = Vec::new();
//! CacheStatus { ttl: Some(30), detail: Some(b"shop/cache fresh"), ..CacheStatus::hit() }
//!     .write("varnish-gateway", &mut value);
//! assert_eq!(value, br#"varnish-gateway; hit; ttl=30; detail="shop/cache fresh""#);
//!
//! value.clear();
//! let status = CacheStatus::forwarded(Forward::Stale);
//! CacheStatus { forward_status: Some(304), stored: true, ..status }.write("g", &mut value);
//! assert_eq!(value, b"g; fwd=stale; fwd-status=304; stored");
//! ```

use std::io::Write as _;

/// Longer keys and details are cut.
pub const MAX_TEXT: usize = 256;

/// Why a request was forwarded (RFC 9211, section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// The cache is configured not to handle the request.
    Bypass,
    /// The method requires it.
    Method,
    /// Nothing is stored for the URI.
    UriMiss,
    /// Something is stored for the URI, but not for these headers.
    VaryMiss,
    /// Nothing is stored, for reasons that are not told apart.
    Miss,
    /// The request asks for it.
    Request,
    /// The stored response is stale.
    Stale,
    /// The stored response has not the range that the request asks for.
    Partial,
}

impl Forward {
    /// The token of the RFC.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Miss => "miss",
            Self::Request => "request",
            Self::Stale => "stale",
            Self::Partial => "partial",
        }
    }
}

/// What the cache did with a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatus<'a> {
    /// Why it was forwarded; None is a hit.
    pub forward: Option<Forward>,
    /// The status that the origin sent.
    pub forward_status: Option<u16>,
    /// How much longer the response is fresh, in seconds; negative if it is stale.
    pub ttl: Option<i64>,
    /// Whether the response was stored.
    pub stored: bool,
    /// Whether another request's response was the answer, if it waited for one.
    pub collapsed: Option<bool>,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// Anything else: the policy, and the word that says why.
    pub detail: Option<&'a [u8]>,
}

impl CacheStatus<'_> {
    /// A request that the cache answered.
    #[must_use]
    pub fn hit() -> Self {
        Self::default()
    }

    /// A request that went to the origin.
    #[must_use]
    pub fn forwarded(forward: Forward) -> Self {
        Self { forward: Some(forward), ..Self::default() }
    }

    /// Write the value of the field. `cache` is a token that names the cache.
    pub fn write(&self, cache: &str, to: &mut Vec<u8>) {
        to.extend_from_slice(cache.as_bytes());
        // Writing to a vector never fails.
        let _ = match self.forward {
            None => write!(to, "; hit"),
            Some(forward) => write!(to, "; fwd={}", forward.name()),
        };
        let numbers = [("fwd-status", self.forward_status.map(i64::from)), ("ttl", self.ttl)];
        for (name, number) in numbers {
            let _ = number.map_or(Ok(()), |number| write!(to, "; {name}={}", bounded(number)));
        }
        for (name, set) in [("stored", self.stored.then_some(true)), ("collapsed", self.collapsed)]
        {
            let _ = match set {
                Some(true) => write!(to, "; {name}"),
                Some(false) => write!(to, "; {name}=?0"),
                None => Ok(()),
            };
        }
        for (name, text) in [("key", self.key), ("detail", self.detail)] {
            if let Some(text) = text {
                let _ = write!(to, "; {name}=\"");
                write_escaped(text, to);
                to.push(b'"');
            }
        }
    }
}

/// Integers of structured fields have up to fifteen digits.
fn bounded(number: i64) -> i64 {
    const LARGEST: i64 = 999_999_999_999_999;
    number.clamp(-LARGEST, LARGEST)
}

/// Strings of structured fields are printable ASCII; other bytes become "?".
fn write_escaped(text: &[u8], to: &mut Vec<u8>) {
    for &byte in text.iter().take(MAX_TEXT) {
        match byte {
            b'"' | b'\\' => to.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => to.push(byte),
            _ => to.push(b'?'),
        }
    }
}
