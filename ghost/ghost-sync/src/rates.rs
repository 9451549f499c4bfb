//! How often something may happen.
//!
//! Threads read the clock before they come here, so one may be late: it has the minute or the
//! second before the one that another thread has begun. It counts in the later one. A clock that
//! is set back further begins a new one.

use crate::primitives::{AtomicU64, Ordering};

/// Counts in the present minute: the minute in the upper half, the count in the lower.
#[derive(Debug, Default)]
pub struct PerMinute(AtomicU64);

impl PerMinute {
    /// None yet.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Whether it has happened less often than `most` in this minute since 1970. Threads that
    /// ask at the same time get the same answer, so there may be more by as many as these.
    pub fn is_below(&self, most: u32, minute: u32) -> bool {
        current(self.0.load(Ordering::Relaxed), minute).1 < u64::from(most)
    }

    /// It happens once more.
    pub fn count(&self, minute: u32) {
        let next = |before| {
            let (minute, count) = current(before, minute);
            Some((minute << 32) | (count + 1).min(u32::MAX.into()))
        };
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

/// The minute that a thread counts in, and the count so far.
fn current(packed: u64, minute: u32) -> (u64, u64) {
    let (known, minute) = (packed >> 32, u64::from(minute));
    if is_current(known, minute) {
        (known, packed & u64::from(u32::MAX))
    } else {
        (minute, 0)
    }
}

/// Something that happens at most once in a second, such as a line in a log.
#[derive(Debug, Default)]
pub struct OncePerSecond(AtomicU64);

impl OncePerSecond {
    /// It hasn't happened yet.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Whether it is to happen now, in this second since 1970: one thread of several is told so.
    pub fn is_due(&self, second: u64) -> bool {
        let last = self.0.load(Ordering::Relaxed);
        let set = || self.0.compare_exchange(last, second, Ordering::Relaxed, Ordering::Relaxed);
        !is_current(last, second) && set().is_ok()
    }
}

/// Whether the known minute or second is the one that a thread has read, or the next one.
fn is_current(known: u64, read: u64) -> bool {
    known == read || known == read.saturating_add(1)
}
