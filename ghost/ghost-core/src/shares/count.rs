//! Counts of workers, apart for each of varnishd's thread pools.

use super::primitives::{AtomicU32, Ordering::Relaxed};

/// How many thread pools varnishd may have.
pub const THREAD_POOLS: usize = if cfg!(loom) { 1 } else { 32 };

/// Workers by thread pool.
#[derive(Debug, Default)]
pub(super) struct Count([AtomicU32; THREAD_POOLS]);

impl Count {
    pub(super) fn get(&self, pool: usize) -> u32 {
        self.0[pool].load(Relaxed)
    }

    /// How many there are then: of several threads that add at the same time, the first ones
    /// find that there is room.
    pub(super) fn add(&self, pool: usize, workers: u32) -> u32 {
        self.0[pool].fetch_add(workers, Relaxed) + workers
    }

    pub(super) fn subtract(&self, pool: usize, workers: u32) {
        self.0[pool].fetch_sub(workers, Relaxed);
    }

    pub(super) fn sum(&self) -> u32 {
        self.0.iter().map(|workers| workers.load(Relaxed)).sum()
    }
}
