//! A cache policy, compiled.
//!
//! In:  a [`wire::CachePolicy`] and the pattern [`Budget`] of its route.
//! Out: a [`Policy`], or a [`PolicyError`] that names the field and the remedy.
//!
//! ```
//! use ghost_core::cache::Policy;
//! use ghost_core::wire::{self, CachePolicy};
//!
//! let policy: CachePolicy = wire::decode(br#"{"defaultTTL": 60000, "statusTTLs": [
//!     {"status": "404", "ttl": 5000}, {"status": "5xx", "ttl": 1000}]}"#)?;
//! let policy = Policy::compile(&policy)?;
//! assert_eq!(policy.ttl_of_status(404).unwrap().as_secs(), 5);
//! assert_eq!(policy.ttl_of_status(503).unwrap().as_secs(), 1);
//! assert_eq!(policy.ttl_of_status(200), None);
//!
//! let both: CachePolicy = wire::decode(br#"{"defaultTTL": 1, "forcedTTL": 1}"#)?;
//! assert_eq!(
//!     Policy::compile(&both).unwrap_err().to_string(),
//!     "forcedTTL: excludes defaultTTL; remove one of them"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attached;
mod bypass;
mod compile;
mod glob;
mod survey;

use std::time::Duration;

pub use attached::Attached;
pub(super) use bypass::field_name;
pub use bypass::{Bypass, BypassReason};
pub use compile::PolicyError;
pub(super) use glob::{bounded, MAX_NAME};
pub use glob::{Globs, MAX_NAMES};
pub use survey::Survey;

use super::key::KeyPolicy;
use crate::budget::Budget;
use crate::wire;
use crate::wire::{RequestCookies, SetCookie, TagHeader};

/// How long a stale response with a validator is kept if the policy doesn't say.
pub const DEFAULT_KEEP: Duration = Duration::from_secs(3600);
/// How long requests don't wait for each other after a response that wasn't stored, if the
/// policy doesn't say.
pub const DEFAULT_HIT_FOR_MISS: Duration = Duration::from_secs(120);

/// Where the lifetime of a response comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// From the origin, or this one if the origin states none.
    Default(Duration),
    /// This one, whatever the origin states.
    Forced(Duration),
}

impl Ttl {
    /// Whether it applies whatever the origin states.
    #[must_use]
    pub fn is_forced(self) -> bool {
        matches!(self, Self::Forced(_))
    }

    /// The duration.
    #[must_use]
    pub fn duration(self) -> Duration {
        match self {
            Self::Default(duration) | Self::Forced(duration) => duration,
        }
    }
}

/// How long a stale response is used while it is validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grace {
    /// So long, whatever the origin states.
    Fixed(Duration),
    /// As long as the origin states, or else so long.
    Default(Duration),
}

/// A compiled cache policy. See the [module](self) for an example, and [`wire::CachePolicy`]
/// for the meaning of its fields.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // they are independent
pub struct Policy {
    /// `namespace/name`.
    pub name: Box<str>,
    /// Tells it from any other policy.
    pub identity: u64,
    /// Lifetimes.
    pub ttl: Ttl,
    /// Whether `forcedTTL` applies to `no-store` and `private`.
    pub ignores_no_store_and_private: bool,
    /// Exact statuses, in order.
    statuses: Box<[(u16, Duration)]>,
    /// Classes: the index is the first digit.
    classes: [Option<Duration>; 6],
    /// How much of the time since Last-Modified is the lifetime.
    pub heuristic_percent: u8,
    /// The window for use while validating.
    pub grace: Grace,
    /// The window for use if the origin fails, unless the origin states it.
    pub stale_if_error: Duration,
    /// How long a stale response with a validator is kept.
    pub keep: Duration,
    /// By how much lifetimes are shortened at most.
    pub jitter_percent: u8,
    /// How long requests don't wait for each other after a response that wasn't stored.
    pub hit_for_miss: Duration,
    /// The key.
    pub key: KeyPolicy,
    /// Which requests pass.
    pub bypass: Bypass,
    /// What becomes of a response with Set-Cookie.
    pub set_cookie: SetCookie,
    /// What becomes of cookies outside of the key.
    pub request_cookies: RequestCookies,
    /// Whether directives of requests count.
    pub honours_requests: bool,
    /// How often clients may force a validation.
    pub revalidation: wire::Revalidation,
    /// Whether Vary compares values by their meaning.
    pub normalises_vary: bool,
    /// Fields that have tags.
    pub tag_headers: Box<[TagHeader]>,
    /// Who gets Cache-Status.
    pub cache_status: wire::CacheStatus,
    /// The largest body to store.
    pub max_object_size: Option<u64>,
    /// Whether texts are compressed.
    pub gzip: bool,
    /// Whether edge side includes are processed.
    pub esi: bool,
}

impl Policy {
    /// Compile a policy on its own.
    ///
    /// # Errors
    /// A field is invalid, or contradicts another.
    pub fn compile(source: &wire::CachePolicy) -> Result<Self, PolicyError> {
        compile::policy(source, &mut Budget::default())
    }

    /// Compile a policy of a route whose patterns have this budget.
    ///
    /// # Errors
    /// A field is invalid, or contradicts another, or the patterns exceed the budget.
    pub fn compile_within(
        source: &wire::CachePolicy,
        budget: &mut Budget,
    ) -> Result<Self, PolicyError> {
        compile::policy(source, budget)
    }

    /// The lifetime that `statusTTLs` has for a status: the status itself, or else its class.
    #[must_use]
    pub fn ttl_of_status(&self, status: u16) -> Option<Duration> {
        let exact = self.statuses.binary_search_by_key(&status, |&(status, _)| status);
        match exact {
            Ok(at) => Some(self.statuses[at].1),
            Err(_) => *self.classes.get(usize::from(status / 100))?,
        }
    }
}
