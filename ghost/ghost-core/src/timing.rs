//! How long a request may take, and when an attempt is repeated.

use std::time::Duration;

use crate::wire;

/// Methods that may be sent twice without doing more than once (RFC 9110, 9.2.2).
const IDEMPOTENT: [&[u8]; 6] = [b"GET", b"HEAD", b"OPTIONS", b"TRACE", b"PUT", b"DELETE"];

/// Pauses grow up to this, unless the first one is longer.
const LONGEST_GROWN_PAUSE: Duration = Duration::from_secs(1);

/// After so many seconds in pauses no other is begun: each holds threads of varnishd.
const MOST_PAUSES: u64 = 60;

/// How long a request may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// With all attempts.
    pub request: Option<Duration>,
    /// One attempt.
    pub backend_request: Option<Duration>,
    /// Whether the rule says anything about it, if only that there is no limit: varnishd's
    /// own limits are for those that say nothing.
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

/// When an attempt is repeated.
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

    /// Whether an answer with this status is one to ask again after.
    #[must_use]
    pub fn retries_status(&self, status: u16) -> bool {
        self.codes.contains(&status)
    }

    /// Whether there may be another repetition after `made`, with so much time in pauses.
    #[must_use]
    pub fn allows_another(&self, made: u32, paused: Duration) -> bool {
        made < self.attempts && paused.as_secs() < MOST_PAUSES
    }

    /// How long to wait before the repetition after `made` others: twice as long each time,
    /// and up to a quarter longer by chance, so that those who failed together don't come
    /// back together.
    #[must_use]
    pub fn backoff(&self, made: u32, chance: u64) -> Duration {
        let grown = self.backoff.saturating_mul(1 << made.min(16));
        let pause = grown.min(LONGEST_GROWN_PAUSE.max(self.backoff));
        let quarter = u64::try_from(pause.as_micros() / 4).unwrap_or(u64::MAX);
        pause + Duration::from_micros(chance % quarter.saturating_add(1))
    }
}

/// Whether a request that a backend may have carried out can be sent again.
#[must_use]
pub fn is_idempotent(method: &[u8]) -> bool {
    IDEMPOTENT.contains(&method)
}
