//! Pauses between attempts.
//!
//! A pause holds two of varnishd's threads, that of the fetch and that of its client. Few
//! fetches may pause at a time, so that the retries of one route leave threads to the others.
//! A route may have as many pauses under way as are left to all, so that it always leaves
//! some to the others.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::config::Counters;

use crate::varnish::most_threads;

/// One in this many threads of a pool may be in a pause, in all pools together.
const ONE_IN: usize = 20;

static PAUSING: AtomicUsize = AtomicUsize::new(0);

/// A pause that may be made.
pub struct Pause {
    length: Duration,
    route: Arc<Counters>,
}

impl Pause {
    /// A pause of this length for a request of a route, unless too many others are under way.
    pub fn new(length: Duration, route: &Arc<Counters>) -> Option<Self> {
        let most = (most_threads() / ONE_IN).max(1);
        // Dropped at once where it is one too many.
        let all = PAUSING.fetch_add(1, Ordering::Relaxed);
        let own = route.pausing.fetch_add(1, Ordering::Relaxed);
        let pause = Self { length, route: Arc::clone(route) };
        (own < most.saturating_sub(all)).then_some(pause)
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
        self.route.pausing.fetch_sub(1, Ordering::Relaxed);
    }
}
