//! Random numbers for choices, without locks: one generator per thread.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

thread_local! {
    static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0_u8));
}

/// An evenly distributed number (splitmix64; nothing here needs to be unpredictable).
pub fn next() -> u64 {
    STATE.with(|state| {
        let seed = state.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        state.set(seed);
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    })
}

/// An evenly distributed number below `end`; 0 for an `end` of 0.
pub fn below(end: usize) -> usize {
    // Scaled by multiplication, for a remainder would favour small numbers.
    let scaled = (u128::from(next()) * end as u128) >> 64;
    usize::try_from(scaled).unwrap_or(0)
}
