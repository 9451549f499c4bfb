//! Shares of varnishd's workers and of connections: bulkheads between namespaces, routes and
//! backends.
//!
//! A worker is a thread of varnishd's. A request holds one until its response is sent, and its
//! fetch holds another. A slow backend, slow clients or idle `WebSockets` hold theirs for long.
//! Each namespace, route and backend may hold a share, so that the others go on undisturbed.
//!
//! A share has no fixed size. It is a percentage of what *others leave*: a namespace alone
//! may hold 75 % of the workers, two that want all of them tend to 43 % each, and the rest
//! stays free. So the sum never exceeds the workers, however many shares there are. What was
//! there first may hold more than it would get now, until its requests end; an eighth of the
//! workers is therefore kept for namespaces that hold less than a hundredth. The same holds
//! for the routes, and in part for the backends, within what a namespace may hold. Every
//! thread pool of varnishd counts for itself, because a request never moves to another pool.
//!
//! A rejected request may still need a fetch, for its response. Its two threads are spare ones,
//! which no share counts, and [`RouteShare::hold_rejection`] bounds how many of these wait.
//!
//! Counts are atomics; only [`Shares::route`] and [`Shares::backend`] take a lock, and a
//! request calls neither.
//!
//! ```
//! use std::sync::Arc;
//! use ghost_core::shares::{Exhausted, Limits, Place, RouteShare, Shares};
//!
//! let shares = Shares::default();
//! let (slow, other) = (shares.route("shop/slow"), shares.route("shop/other"));
//! let (at, limits) = (Place { pool: 0, workers: 100, spare: 10 }, Limits::default());
//! let hold = |route: &Arc<RouteShare>| route.hold(at, &limits, 1);
//!
//! let mut held = Vec::new();
//! let exhausted = loop {
//!     match hold(&slow) {
//!         Ok(worker) => held.push(worker),
//!         Err(exhausted) => break exhausted,
//!     }
//! };
//! assert_eq!((held.len(), exhausted), (38, Exhausted::Route)); // half of the namespace's 75
//! assert!(hold(&other).is_ok());
//! drop(held.pop());
//! assert!(hold(&slow).is_ok());
//! ```

mod count;
mod hold;
mod limits;
#[cfg(all(loom, test))]
mod models;
mod primitives;

pub use count::THREAD_POOLS;
pub use hold::{
    BackendShare, HeldConnection, HeldRejection, HeldWebSocket, HeldWorkers, Place, RouteShare,
};
pub use limits::{Exhausted, Limits, SharedLimits};

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use hold::{Connections, NamespaceShare, Totals};

/// Every share, by name. A share lives for as long as a configuration or a request refers to
/// it: a reload, or a route that is removed and added again, finds what is held.
#[derive(Debug, Default)]
pub struct Shares {
    all: Arc<Totals>,
    named: Mutex<Named>,
    rejections: [AtomicU64; Exhausted::ALL.len()],
}

#[derive(Debug, Default)]
struct Named {
    namespaces: HashMap<Box<str>, Weak<NamespaceShare>>,
    routes: HashMap<Box<str>, Weak<RouteShare>>,
    connections: HashMap<Box<str>, Weak<Connections>>,
    /// By the namespace and the name of the backend.
    backends: HashMap<Box<str>, Weak<BackendShare>>,
}

impl Shares {
    /// The share of a route, which is called `namespace/name`.
    #[must_use]
    pub fn route(&self, key: &str) -> Arc<RouteShare> {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let Named { namespaces, routes, .. } = &mut *named;
        let namespace = namespace_of(key);
        find(routes, key, || {
            RouteShare::new(find(namespaces, namespace, || NamespaceShare::new(&self.all)))
        })
    }

    /// The share of a backend for the routes of a namespace. Each namespace has its own, so that
    /// slow requests of one leave the backend to the others.
    #[must_use]
    pub fn backend(&self, namespace: &str, name: &str) -> Arc<BackendShare> {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let Named { connections, backends, .. } = &mut *named;
        find(backends, &format!("{namespace} {name}"), || {
            BackendShare::new(find(connections, name, Connections::default))
        })
    }

    /// Count a request that was rejected.
    pub fn count_rejection(&self, exhausted: Exhausted) {
        self.rejections[exhausted.index()].fetch_add(1, Relaxed);
    }

    /// How many requests were rejected, by the share that was exhausted.
    pub fn rejections(&self) -> impl Iterator<Item = (Exhausted, u64)> + '_ {
        let read = |rejected: &AtomicU64| rejected.load(Relaxed);
        Exhausted::ALL.into_iter().zip(self.rejections.iter().map(read))
    }

    /// How many workers requests hold, in all thread pools.
    #[must_use]
    pub fn held(&self) -> u32 {
        self.all.workers.sum()
    }
}

/// The namespace of a route that is called `namespace/name`.
#[must_use]
pub fn namespace_of(route: &str) -> &str {
    route.split_once('/').map_or("", |(namespace, _)| namespace)
}

/// The share of this name, new if there is none. Names of shares that are gone are removed
/// when the map would have to grow, so that a change does not cost a walk over everything.
fn find<S>(shares: &mut HashMap<Box<str>, Weak<S>>, name: &str, new: impl FnOnce() -> S) -> Arc<S> {
    if let Some(share) = shares.get(name).and_then(Weak::upgrade) {
        return share;
    }
    if shares.len() == shares.capacity() {
        shares.retain(|_, share| share.strong_count() > 0);
    }
    let share = Arc::new(new());
    shares.insert(name.into(), Arc::downgrade(&share));
    share
}
