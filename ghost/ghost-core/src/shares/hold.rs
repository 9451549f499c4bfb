//! What requests hold of their shares, and give back when they are done.

use std::sync::Arc;

use super::count::Count;
use super::limits::{is_kept, part, Exhausted, Limits};
use super::primitives::{AtomicU32, Ordering::Relaxed};

/// Where a request is: in which thread pool, and how many workers of it are for requests.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The number of the thread pool, below [`THREAD_POOLS`](super::THREAD_POOLS).
    pub pool: usize,
    /// Its workers.
    pub workers: u32,
    /// Its threads beyond the workers, which no share counts.
    pub spare: u32,
}

impl Place {
    /// Whether so many workers are few: what is kept for those that hold few is for these.
    fn is_few(self, workers: u32) -> bool {
        workers <= (self.workers / 100).max(2)
    }
}

/// One in this many spare threads is for a rejected request: half of them, for a rejection by a
/// fetch takes two.
const SPARE_OF_A_REJECTION: u32 = 4;

/// How many workers there would be in the hands of all, of a namespace and of a route.
#[derive(Clone, Copy)]
struct Sums {
    all: u32,
    namespace: u32,
    route: u32,
}

/// What a namespace may hold, and how much of that is left.
struct Room {
    most: u32,
    left: u32,
}

impl Sums {
    fn plus(self, workers: u32) -> Self {
        let Self { all, namespace, route } = self;
        Self { all: all + workers, namespace: namespace + workers, route: route + workers }
    }

    fn room(self, at: Place, limits: &Limits) -> Result<Room, Exhausted> {
        let free = at.workers.checked_sub(self.all).ok_or(Exhausted::Workers)?;
        if !at.is_few(self.namespace) && is_kept(limits.namespace, free, at.workers) {
            return Err(Exhausted::Namespace);
        }
        let most = part(limits.namespace, free + self.namespace);
        let left = most.checked_sub(self.namespace).ok_or(Exhausted::Namespace)?;
        Ok(Room { most, left })
    }

    fn check(self, at: Place, limits: &Limits) -> Result<(), Exhausted> {
        let Room { most, left } = self.room(at, limits)?;
        let kept = !at.is_few(self.route) && is_kept(limits.route, left, most);
        let fits = self.route <= part(limits.route, left + self.route);
        (fits && !kept).then_some(()).ok_or(Exhausted::Route)
    }
}

/// What the requests of all namespaces hold.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) workers: Count,
    /// Rejected requests that wait for a fetch.
    rejected: Count,
}

/// The share of a namespace.
#[derive(Debug, Default)]
pub(super) struct NamespaceShare {
    all: Arc<Totals>,
    workers: Count,
    rejected: Count,
}

impl NamespaceShare {
    pub(super) fn new(all: &Arc<Totals>) -> Self {
        Self { all: Arc::clone(all), ..Self::default() }
    }
}

/// The share of a route.
#[derive(Debug, Default)]
pub struct RouteShare {
    namespace: Arc<NamespaceShare>,
    workers: Count,
    web_sockets: Count,
    connections: AtomicU32,
}

impl RouteShare {
    pub(super) fn new(namespace: Arc<NamespaceShare>) -> Self {
        Self { namespace, ..Self::default() }
    }

    /// Hold workers: the one that runs the caller, and those that it is going to need.
    ///
    /// # Errors
    /// Where a share has not as many left.
    pub fn hold(
        self: &Arc<Self>,
        at: Place,
        limits: &Limits,
        workers: u32,
    ) -> Result<HeldWorkers, Exhausted> {
        self.hold_beside(at, limits, workers, 0)
    }

    /// Hold workers only if so many others are left after that.
    ///
    /// # Errors
    /// Where a share has not as many left.
    pub fn hold_beside(
        self: &Arc<Self>,
        at: Place,
        limits: &Limits,
        workers: u32,
        others: u32,
    ) -> Result<HeldWorkers, Exhausted> {
        // A look first: what is rejected does not change the counts that others read.
        self.sums(at).plus(workers + others).check(at, limits)?;
        let (sums, held) = self.add(at, workers);
        // Again, for others may have looked at the same time. Dropped where it is too many.
        sums.plus(others).check(at, limits).map(|()| held)
    }

    /// Hold one worker, whether or not a share has one left.
    #[must_use]
    pub fn hold_anyway(self: &Arc<Self>, at: Place) -> HeldWorkers {
        self.add(at, 1).1
    }

    /// Hold what a WebSocket needs beside its worker, which it keeps for as long as its client
    /// likes.
    ///
    /// # Errors
    /// Where the route has too many.
    pub fn hold_websocket(
        self: &Arc<Self>,
        at: Place,
        limits: &Limits,
    ) -> Result<HeldWebSocket, Exhausted> {
        let own = self.web_sockets.add(at.pool, 1);
        // Dropped where it is too many.
        let held = HeldWebSocket { route: Arc::clone(self), pool: at.pool };
        let sums = self.sums(at);
        let left = sums.room(at, limits).map_or(0, |room| room.left);
        let most = part(limits.web_sockets, left + sums.route);
        (own <= most).then_some(held).ok_or(Exhausted::WebSockets)
    }

    /// Hold a connection to an endpoint of a backend, for which `workers` wait.
    ///
    /// # Errors
    /// Where a share has none left.
    pub fn connect(
        self: &Arc<Self>,
        backend: &Arc<BackendShare>,
        at: Place,
        limits: &Limits,
        workers: u32,
    ) -> Result<HeldConnection, Exhausted> {
        let of_route = self.connections.fetch_add(1, Relaxed);
        let of_backend = backend.connections.fetch_add(1, Relaxed);
        let own = backend.workers.add(at.pool, workers);
        let (route, pool) = (Arc::clone(self), at.pool);
        // Dropped where it is too many.
        let held = HeldConnection { route, backend: Arc::clone(backend), pool, workers };
        if of_route >= limits.route_connections {
            return Err(Exhausted::RouteConnections);
        }
        if of_backend >= limits.backend_connections {
            return Err(Exhausted::BackendConnections);
        }
        let sums = self.sums(at);
        let left = sums.room(at, limits).map_or(0, |room| room.left);
        let most = part(limits.backend, left + own.min(sums.namespace));
        (own <= most).then_some(held).ok_or(Exhausted::Backend)
    }

    /// Have a rejected request wait for a fetch that makes its response. A namespace holds half of
    /// what others leave, and at least one. None where it holds that, or all hold enough: with all
    /// threads waiting for a fetch, there would be none left to run one.
    #[must_use]
    pub fn hold_rejection(&self, at: Place) -> Option<HeldRejection> {
        let most = (at.spare / SPARE_OF_A_REJECTION).max(1);
        let all = self.namespace.all.rejected.add(at.pool, 1);
        let own = self.namespace.rejected.add(at.pool, 1);
        // Dropped where it is too many.
        let held = HeldRejection { namespace: Arc::clone(&self.namespace), pool: at.pool };
        let left = most.saturating_sub(all.saturating_sub(own));
        (all <= most && own <= part(50, left).max(1)).then_some(held)
    }

    fn sums(&self, at: Place) -> Sums {
        Sums {
            all: self.namespace.all.workers.get(at.pool),
            namespace: self.namespace.workers.get(at.pool),
            route: self.workers.get(at.pool),
        }
    }

    fn add(self: &Arc<Self>, at: Place, workers: u32) -> (Sums, HeldWorkers) {
        let sums = Sums {
            all: self.namespace.all.workers.add(at.pool, workers),
            namespace: self.namespace.workers.add(at.pool, workers),
            route: self.workers.add(at.pool, workers),
        };
        (sums, HeldWorkers { route: Arc::clone(self), pool: at.pool, workers })
    }
}

/// The connections of a backend, whichever namespaces use it.
pub(super) type Connections = AtomicU32;

/// What the routes of one namespace may hold of a backend: a port of a Service.
#[derive(Debug, Default)]
pub struct BackendShare {
    workers: Count,
    connections: Arc<Connections>,
}

impl BackendShare {
    pub(super) fn new(connections: Arc<Connections>) -> Self {
        Self { workers: Count::default(), connections }
    }
}

/// Workers that a request holds, until this is dropped.
#[derive(Debug)]
pub struct HeldWorkers {
    route: Arc<RouteShare>,
    pool: usize,
    workers: u32,
}

impl HeldWorkers {
    /// Give back all but so many.
    pub fn keep(&mut self, workers: u32) {
        self.give_back(self.workers.saturating_sub(workers));
    }

    fn give_back(&mut self, workers: u32) {
        self.workers -= workers;
        self.route.workers.subtract(self.pool, workers);
        self.route.namespace.workers.subtract(self.pool, workers);
        self.route.namespace.all.workers.subtract(self.pool, workers);
    }
}

impl Drop for HeldWorkers {
    fn drop(&mut self) {
        self.keep(0);
    }
}

/// Two spare threads for a request that was rejected: its own, which waits, and that of the
/// fetch that makes its response. Until this is dropped.
#[derive(Debug)]
pub struct HeldRejection {
    namespace: Arc<NamespaceShare>,
    pool: usize,
}

impl Drop for HeldRejection {
    fn drop(&mut self) {
        self.namespace.rejected.subtract(self.pool, 1);
        self.namespace.all.rejected.subtract(self.pool, 1);
    }
}

/// A WebSocket of a route, until this is dropped.
#[derive(Debug)]
pub struct HeldWebSocket {
    route: Arc<RouteShare>,
    pool: usize,
}

impl Drop for HeldWebSocket {
    fn drop(&mut self) {
        self.route.web_sockets.subtract(self.pool, 1);
    }
}

/// A connection to an endpoint that a request holds, until this is dropped.
#[derive(Debug)]
pub struct HeldConnection {
    route: Arc<RouteShare>,
    backend: Arc<BackendShare>,
    pool: usize,
    workers: u32,
}

impl HeldConnection {
    /// From now on only one worker waits for it.
    #[must_use]
    pub fn for_one_worker(mut self) -> Self {
        self.backend.workers.subtract(self.pool, self.workers.saturating_sub(1));
        self.workers = self.workers.min(1);
        self
    }
}

impl Drop for HeldConnection {
    fn drop(&mut self) {
        self.backend.workers.subtract(self.pool, self.workers);
        self.backend.connections.fetch_sub(1, Relaxed);
        self.route.connections.fetch_sub(1, Relaxed);
    }
}
