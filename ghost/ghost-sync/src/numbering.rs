//! Small numbers for large ones.

use crate::primitives::{AtomicUsize, Ordering};

/// Numbers from 0 on for keys, such as addresses, in the order of their first use. Once `MOST`
/// keys are known, every further one gets the last number.
#[derive(Debug)]
pub struct Numbering<const MOST: usize>([AtomicUsize; MOST]);

impl<const MOST: usize> Numbering<MOST> {
    /// No key is known.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self([const { AtomicUsize::new(0) }; MOST])
    }

    /// The number of a key, which is not zero.
    pub fn number(&self, key: usize) -> usize {
        self.0.iter().position(|place| occupant(place, key) == key).unwrap_or(MOST - 1)
    }
}

impl<const MOST: usize> Default for Numbering<MOST> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicUsize::new(0)))
    }
}

/// The key that has a place from now on: this one, if no other has it.
fn occupant(place: &AtomicUsize, key: usize) -> usize {
    match place.load(Ordering::Relaxed) {
        // Another thread may take it first, for the same key or for another one.
        0 => match place.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => key,
            Err(other) => other,
        },
        known => known,
    }
}
