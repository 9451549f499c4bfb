//! What a response remembers of the decision about storing it.
//!
//! In:  the decision of [`store`](super::store).
//! Out: a line of text, for a header that no client sees; and the facts read from it later.
//!
//! A store of objects knows when an object was made, and for how long it is fresh. It knows
//! nothing of the rest, which a lookup, an error of the origin and Cache-Status depend on.
//!
//! ```
//! use std::time::Duration;
//!
//! use ghost_core::cache::record::Record;
//!
//! let record = Record::parse(b"60000 3600000 mi max-age").unwrap();
//! assert_eq!(record.lifetime, Some(Duration::from_secs(60)));
//! assert_eq!(record.stale_if_error, Duration::from_secs(3600));
//! assert!(record.must_revalidate && record.immutable && !record.always_revalidate);
//! let mut text = Vec::new();
//! record.write(&mut text);
//! assert_eq!(text, b"60000 3600000 mi max-age");
//!
//! let refused = Record::parse(b"- 0 - private").unwrap();
//! assert_eq!((refused.lifetime, refused.word), (None, &b"private"[..]));
//! assert_eq!(Record::parse(b"60 x"), None);
//! ```

use std::io::Write as _;
use std::time::Duration;

use super::lookup::Candidate;
use super::store::{NotStoredReason, Stored};
use super::syntax::digits;
use super::time::Timestamp;

/// The facts. See the [module](self) for an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // they are independent facts
pub struct Record<'a> {
    /// For how long it is fresh; None if it isn't stored.
    pub lifetime: Option<Duration>,
    /// For how long after its lifetime it is used if the origin fails.
    pub stale_if_error: Duration,
    /// Whether it must not be used stale.
    pub must_revalidate: bool,
    /// Whether it is validated before each use.
    pub always_revalidate: bool,
    /// Whether it doesn't change while it is fresh.
    pub immutable: bool,
    /// Whether its origin has just answered 304.
    pub validated: bool,
    /// Whether fields of it are not for later clients.
    pub withholds_fields: bool,
    /// Why it is stored, or why not.
    pub word: &'a [u8],
}

impl<'a> Record<'a> {
    /// Of a response that is stored.
    #[must_use]
    pub fn stored(stored: &Stored, validated: bool) -> Self {
        Self {
            lifetime: Some(stored.lifetime),
            stale_if_error: stored.stale_if_error,
            must_revalidate: stored.must_revalidate,
            always_revalidate: stored.always_revalidate,
            immutable: stored.immutable,
            validated,
            withholds_fields: stored.withholds_fields,
            word: stored.reason.name().as_bytes(),
        }
    }

    /// Of a response that isn't.
    #[must_use]
    pub fn refused(reason: NotStoredReason, validated: bool) -> Self {
        Self { validated, word: reason.name().as_bytes(), ..Self::default() }
    }

    /// Write the text.
    pub fn write(&self, to: &mut Vec<u8>) {
        // Writing to a vector never fails.
        let _ = match self.lifetime {
            Some(lifetime) => write!(to, "{}", lifetime.as_millis()),
            None => write!(to, "-"),
        };
        let _ = write!(to, " {} ", self.stale_if_error.as_millis());
        let before = to.len();
        let flags = self.flags();
        to.extend(flags.iter().filter(|(_, set)| *set).map(|(letter, _)| *letter));
        if to.len() == before {
            to.push(b'-');
        }
        to.push(b' ');
        to.extend_from_slice(self.word);
    }

    fn flags(&self) -> [(u8, bool); 5] {
        [
            (b'm', self.must_revalidate),
            (b'a', self.always_revalidate),
            (b'i', self.immutable),
            (b'v', self.validated),
            (b'w', self.withholds_fields),
        ]
    }

    /// Read the text; None if it isn't one that [`write`](Self::write) wrote.
    #[must_use]
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let mut parts = text.splitn(4, |&byte| byte == b' ');
        let lifetime = match parts.next()? {
            b"-" => None,
            millis => Some(Duration::from_millis(digits(millis)?)),
        };
        let stale_if_error = Duration::from_millis(digits(parts.next()?)?);
        let flags = parts.next()?;
        let has = |letter| flags.contains(&letter);
        Some(Self {
            lifetime,
            stale_if_error,
            must_revalidate: has(b'm'),
            always_revalidate: has(b'a'),
            immutable: has(b'i'),
            validated: has(b'v'),
            withholds_fields: has(b'w'),
            word: parts.next()?,
        })
    }

    /// What a lookup decides about. Origin, lifetime and grace are those of the stored object:
    /// an invalidation may have changed them since.
    #[must_use]
    pub fn candidate(&self, origin: Timestamp, lifetime: Duration, grace: Duration) -> Candidate {
        // What follows an error makes an object fresh for longer than it was to be.
        let original = self.lifetime.unwrap_or(lifetime);
        Candidate {
            until_on_error: origin.plus(original).plus(self.stale_if_error),
            must_revalidate: self.must_revalidate,
            always_revalidate: self.always_revalidate,
            immutable: self.immutable,
            ..Candidate::new(origin, lifetime).with_grace(grace)
        }
    }
}
