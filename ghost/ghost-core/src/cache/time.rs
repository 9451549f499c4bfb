//! Points in time. The cache reads no clock: its callers pass the time.

use std::time::Duration;

/// The longest lifetime, age or window: 2³¹ seconds (RFC 9111, section 1.2.2).
pub const FOREVER: Duration = Duration::from_secs(1 << 31);

/// Milliseconds since 1970.
///
/// ```
/// use std::time::Duration;
///
/// use ghost_core::cache::Timestamp;
///
/// let start = Timestamp::from_seconds(100);
/// let end = start.plus(Duration::from_millis(1500));
/// assert_eq!(end, Timestamp::from_millis(101_500));
/// assert_eq!(end.since(start), Duration::from_millis(1500));
/// assert_eq!(start.since(end), Duration::ZERO);
/// assert_eq!(end.seconds(), 101);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From milliseconds since 1970.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// From seconds since 1970.
    #[must_use]
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since 1970.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// The time that has passed since `earlier`, at most [`FOREVER`]; zero if that is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let millis = self.0.saturating_sub(earlier.0);
        u64::try_from(millis).map_or(Duration::ZERO, Duration::from_millis).min(FOREVER)
    }

    /// So much later.
    #[must_use]
    pub fn plus(self, time: Duration) -> Self {
        Self(self.0.saturating_add(millis(time)))
    }

    /// So much earlier.
    #[must_use]
    pub fn minus(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(millis(time)))
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
