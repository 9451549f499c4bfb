//! Notes that one thread leaves for another.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use crate::primitives::{Mutex, MutexGuard};

/// Numbers, each of which is found once. There are at most `MOST`: one more drops the smallest,
/// which is the oldest where numbers ascend.
#[derive(Debug, Default)]
pub struct Notes<const MOST: usize>(Mutex<BTreeSet<u64>>);

impl<const MOST: usize> Notes<MOST> {
    /// None yet.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeSet::new()))
    }

    /// Leave a note.
    pub fn leave(&self, number: u64) {
        let mut notes = self.lock();
        notes.insert(number);
        if notes.len() > MOST {
            notes.pop_first();
        }
    }

    /// Whether there was a note; it is gone then.
    pub fn take(&self, number: u64) -> bool {
        self.lock().remove(&number)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// A panic while the lock was held left the set as it was before or after a change.
    fn lock(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
