//! What was found of late, and how often.

use std::array;

use crate::primitives::{AtomicU64, Ordering};

/// For how many minutes a finding counts.
const MINUTES: u64 = 10;
/// A slot has the name in the upper half, then the last minute, and how often in the lowest byte.
const MINUTE: u64 = (1 << 24) - 1;
const OFTEN: u64 = (1 << 8) - 1;

/// Counts by name, which is a hash. Of two names that share a slot, the later one counts.
///
/// ```
/// use ghost_sync::Findings;
///
/// let findings = Findings::<16>::new();
/// findings.add(7, 100);
/// findings.add(7, 109);
/// assert_eq!([7, 8].map(|name| findings.count(name, 110)), [2, 0]);
/// // Ten minutes after the last one, none counts.
/// assert_eq!([118, 119].map(|minute| findings.count(7, minute)), [2, 0]);
/// findings.add(7, 119);
/// assert_eq!(findings.count(7, 119), 1);
/// findings.add(7 + 16, 119);
/// assert_eq!([7, 7 + 16].map(|name| findings.count(name, 119)), [0, 1]);
/// ```
#[derive(Debug)]
pub struct Findings<const SLOTS: usize>([AtomicU64; SLOTS]);

impl<const SLOTS: usize> Default for Findings<SLOTS> {
    fn default() -> Self {
        Self(array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl<const SLOTS: usize> Findings<SLOTS> {
    /// None yet.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; SLOTS])
    }

    /// It was found once more, in this minute since 1970.
    pub fn add(&self, name: u32, minute: u32) {
        let next = |before| {
            let often = (often(before, name, minute) + 1).min(OFTEN);
            Some((u64::from(name) << 32) | ((u64::from(minute) & MINUTE) << 8) | often)
        };
        let _ = self.slot(name).fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// How often it was found until this minute: up to 255 times, with less than ten minutes from
    /// one to the next.
    pub fn count(&self, name: u32, minute: u32) -> u64 {
        often(self.slot(name).load(Ordering::Relaxed), name, minute)
    }

    fn slot(&self, name: u32) -> &AtomicU64 {
        &self.0[name as usize % SLOTS]
    }
}

fn often(slot: u64, name: u32, minute: u32) -> u64 {
    let ago = u64::from(minute).wrapping_sub(slot >> 8) & MINUTE;
    // A thread that is late has the minute before.
    let is_recent = ago < MINUTES || ago == MINUTE;
    if slot >> 32 == u64::from(name) && is_recent {
        slot & OFTEN
    } else {
        0
    }
}
