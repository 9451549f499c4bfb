//! Pauses between attempts.
//!
//! A pause holds two of varnishd's threads, that of the fetch and that of its client. Few
//! fetches may pause at a time, so that the retries of one route leave threads to the others.
//! The routes of a namespace may have as many pauses under way as are left to all, and a route as
//! many as are left to its namespace: each leaves some to the others.

use std::borrow::Borrow;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ghost_sync::{Holders, Permit};

use crate::config::Counters;
use crate::varnish::most_threads;

/// One in this many threads of a pool may be in a pause, in all pools together.
const ONE_IN: usize = 20;

static PAUSING: Holders = Holders::none();

/// A pause that may be made.
pub struct Pause {
    length: Duration,
    _permit: Permit<&'static Holders, Namespace, Route>,
}

/// The namespace of a route whose request pauses.
struct Namespace(Arc<Counters>);

impl Borrow<Holders> for Namespace {
    fn borrow(&self) -> &Holders {
        &self.0.pausing_in_namespace
    }
}

/// The route whose request pauses.
struct Route(Arc<Counters>);

impl Borrow<Holders> for Route {
    fn borrow(&self) -> &Holders {
        &self.0.pausing
    }
}

impl Pause {
    /// A pause of this length for a request of a route, unless too many others are under way.
    pub fn new(length: Duration, route: &Arc<Counters>) -> Option<Self> {
        let most = (most_threads() / ONE_IN).max(1);
        let (namespace, own) = (Namespace(Arc::clone(route)), Route(Arc::clone(route)));
        let permit = Permit::within(most, &PAUSING, namespace, own)?;
        Some(Self { length, _permit: permit })
    }

    /// Make it; returns its length.
    pub fn wait(self) -> Duration {
        thread::sleep(self.length);
        self.length
    }
}
