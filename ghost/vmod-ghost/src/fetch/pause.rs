//! Pauses between attempts.
//!
//! A pause holds two of varnishd's threads, that of the fetch and that of its client. Few
//! fetches may pause at a time, so that the retries of one rule leave threads to the others.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::varnish::most_threads;

/// One in this many threads of a pool may be in a pause, in all pools together.
const ONE_IN: usize = 20;

static PAUSING: AtomicUsize = AtomicUsize::new(0);

/// A pause that may be made.
pub struct Pause {
    length: Duration,
}

impl Pause {
    /// A pause of this length, unless too many others are under way.
    pub fn new(length: Duration) -> Option<Self> {
        let most = (most_threads() / ONE_IN).max(1);
        // Dropped at once where it is one too many.
        let others = PAUSING.fetch_add(1, Ordering::Relaxed);
        let pause = Self { length };
        (others < most).then_some(pause)
    }

    /// Make it; returns its length.
    pub fn wait(self) -> Duration {
        thread::sleep(self.length);
        self.length
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        PAUSING.fetch_sub(1, Ordering::Relaxed);
    }
}
