//! Timeouts of a request, and when to retry it.
//!
//! In:  the timeouts and the retry policy of a rule; what has happened to a request so far.
//! Out: limits, and whether and when to try again. Nothing here reads a clock or draws a
//!      random number.
//!
//! ```
//! use std::time::Duration;
//!
//! use ghost_core::{is_idempotent, wire, Route};
//!
//! let route: wire::Route = wire::decode(
//!     br#"{"namespace": "shop", "name": "tea", "attachments": [], "rules": [{
//!         "timeouts": {"request": 2000, "backendRequest": 0},
//!         "retry": {"codes": [503], "attempts": 2, "backoff": 100}}]}"#,
//! )?;
//! let rule = &Route::compile(&route)?.rules()[0].clone();
//! assert_eq!(rule.timeouts.request, Some(Duration::from_secs(2)));
//! assert_eq!(rule.timeouts.backend_request, None);
//!
//! let retry = rule.retry.as_ref().unwrap();
//! assert!(is_idempotent(b"GET") && retry.retries_status(503));
//! assert!(retry.allows_another(1, Duration::ZERO, None));
//! assert!(!retry.allows_another(2, Duration::ZERO, None));
//! assert_eq!(retry.backoff(0, 0), Duration::from_millis(100));
//! assert_eq!(retry.backoff(1, 0), Duration::from_millis(200));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::time::Duration;

use crate::wire;

/// Methods whose effect is the same however often they are sent (RFC 9110, 9.2.2).
const IDEMPOTENT: [&[u8]; 6] = [b"GET", b"HEAD", b"OPTIONS", b"TRACE", b"PUT", b"DELETE"];

/// A backoff doubles up to this limit, unless the first one is longer.
const LONGEST_BACKOFF: Duration = Duration::from_secs(1);

/// This many retries follow at once where the rule sets no backoff. From then on each waits,
/// for twice as long as the one before it: a request with any number of attempts costs
/// little per second.
const UNPACED_RETRIES: u32 = 4;

/// The first of those waits.
const LEAST_BACKOFF: Duration = Duration::from_millis(1);

/// After this much time no retry is allowed, unless the rule itself limits the time of a
/// request. Nor is one after as much waiting: a waiting request occupies threads of varnishd.
const LONGEST_RETRIES: Duration = Duration::from_secs(60);

/// The timeouts of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// For the request with all its attempts.
    pub request: Option<Duration>,
    /// For one attempt.
    pub backend_request: Option<Duration>,
    /// Whether the rule sets any timeout, even if only to "no limit". varnishd's own
    /// timeouts apply to rules that set none.
    pub explicit: bool,
}

impl Timeouts {
    pub(crate) fn new(source: Option<&wire::Timeouts>) -> Self {
        let limit = |millis: Option<u64>| millis.filter(|&it| it > 0).map(Duration::from_millis);
        source.map_or_else(Self::default, |source| Self {
            request: limit(source.request),
            backend_request: limit(source.backend_request),
            explicit: source.request.or(source.backend_request).is_some(),
        })
    }
}

/// The retry policy of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    codes: Box<[u16]>,
    attempts: u32,
    backoff: Duration,
}

impl Retry {
    pub(crate) fn new(source: &wire::Retry) -> Self {
        Self {
            codes: source.codes.as_slice().into(),
            attempts: source.attempts,
            backoff: Duration::from_millis(source.backoff),
        }
    }

    /// Whether to retry after a response of this status.
    #[must_use]
    pub fn retries_status(&self, status: u16) -> bool {
        self.codes.contains(&status)
    }

    /// Whether another retry is allowed after `retries`, which waited for `waited` in total.
    /// `unlimited` is the time since the first attempt, if the rule sets no limit to it.
    #[must_use]
    pub fn allows_another(
        &self,
        retries: u32,
        waited: Duration,
        unlimited: Option<Duration>,
    ) -> bool {
        let spent = unlimited.map_or(waited, |elapsed| elapsed.max(waited));
        retries < self.attempts && spent < LONGEST_RETRIES
    }

    /// How long to wait before the next retry after `retries` of them. It doubles each time,
    /// and `random` adds up to a quarter, so that requests that failed together do not
    /// return together.
    #[must_use]
    pub fn backoff(&self, retries: u32, random: u64) -> Duration {
        let doubled = |first: Duration, times: u32| first.saturating_mul(1 << times.min(16));
        let paced = retries.checked_sub(UNPACED_RETRIES);
        let least = paced.map_or(Duration::ZERO, |times| doubled(LEAST_BACKOFF, times));
        let grown = doubled(self.backoff, retries).max(least);
        let backoff = grown.min(LONGEST_BACKOFF.max(self.backoff));
        let quarter = u64::try_from(backoff.as_micros() / 4).unwrap_or(u64::MAX);
        backoff + Duration::from_micros(random % quarter.saturating_add(1))
    }
}

/// Whether a request may be sent again although a backend may have processed it.
#[must_use]
pub fn is_idempotent(method: &[u8]) -> bool {
    IDEMPOTENT.contains(&method)
}
