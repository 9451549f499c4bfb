//! The sizes of shares, and why one is exhausted.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::wire;

/// How much one namespace, route or backend may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub(super) namespace: u32,
    pub(super) route: u32,
    pub(super) backend: u32,
    pub(super) web_sockets: u32,
    pub(super) route_connections: u32,
    pub(super) backend_connections: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self::new(&wire::WorkerShares::default())
    }
}

impl Limits {
    /// The limits that a configuration sets. A share is never empty.
    #[must_use]
    pub fn new(shares: &wire::WorkerShares) -> Self {
        let percent = |share: u32| share.clamp(1, 100);
        let most = |connections: Option<u32>| connections.map_or(u32::MAX, |most| most.max(1));
        Self {
            namespace: percent(shares.namespace),
            route: percent(shares.route),
            backend: percent(shares.backend),
            web_sockets: percent(shares.web_sockets),
            route_connections: most(shares.route_connections),
            backend_connections: most(shares.backend_connections),
        }
    }
}

/// Limits that many read while a reload may replace them. A reader at that moment may see some
/// of the former and some of the new ones.
#[derive(Debug)]
pub struct SharedLimits([AtomicU32; 6]);

impl Default for SharedLimits {
    fn default() -> Self {
        let shared = Self(Default::default());
        shared.set(&Limits::default());
        shared
    }
}

impl SharedLimits {
    /// Replace them.
    pub fn set(&self, limits: &Limits) {
        let Limits { namespace, route, backend, web_sockets, .. } = *limits;
        let Limits { route_connections, backend_connections, .. } = *limits;
        let values =
            [namespace, route, backend, web_sockets, route_connections, backend_connections];
        for (shared, value) in self.0.iter().zip(values) {
            shared.store(value, Relaxed);
        }
    }

    /// Read them.
    #[must_use]
    pub fn get(&self) -> Limits {
        let [namespace, route, backend, web_sockets, route_connections, backend_connections] =
            self.0.each_ref().map(|shared| shared.load(Relaxed));
        Limits { namespace, route, backend, web_sockets, route_connections, backend_connections }
    }
}

/// This percentage of a number of workers, rounded up: the last free worker is for anyone.
pub(super) fn part(percent: u32, workers: u32) -> u32 {
    let part = (u64::from(percent) * u64::from(workers)).div_ceil(100);
    u32::try_from(part).unwrap_or(u32::MAX)
}

/// One in this many workers is kept for those that hold few.
const KEPT: u32 = 8;

/// Whether what is left of so many workers is kept for those that hold few. A share of
/// everything is not limited.
pub(super) fn is_kept(percent: u32, left: u32, of: u32) -> bool {
    percent < 100 && left < of / KEPT
}

/// Which share has nothing left for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// Requests hold every worker of the thread pool.
    Workers,
    /// That of the route's namespace.
    Namespace,
    /// That of the route.
    Route,
    /// That of `WebSockets` of the route.
    WebSockets,
    /// That of the backend.
    Backend,
    /// The connections of the route.
    RouteConnections,
    /// The connections of the backend.
    BackendConnections,
}

impl Exhausted {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 7] = [
        Self::Workers,
        Self::Namespace,
        Self::Route,
        Self::WebSockets,
        Self::Backend,
        Self::RouteConnections,
        Self::BackendConnections,
    ];

    /// The share, as metrics and configuration call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Workers => "workers",
            Self::Namespace => "namespace",
            Self::Route => "route",
            Self::WebSockets => "webSockets",
            Self::Backend => "backend",
            Self::RouteConnections => "routeConnections",
            Self::BackendConnections => "backendConnections",
        }
    }

    /// Its place in [`ALL`](Self::ALL).
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// What clients read.
impl fmt::Display for Exhausted {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Workers => "overloaded: requests hold all workers of this gateway",
            Self::Namespace => {
                "overloaded: requests for routes of this namespace hold its share of the workers"
            }
            Self::Route => "overloaded: requests for this route hold its share of the workers",
            Self::WebSockets => {
                "overloaded: this route holds its share of the workers for WebSockets"
            }
            Self::Backend => {
                "overloaded: requests to the backend of this route hold its share of the workers"
            }
            Self::RouteConnections => {
                "overloaded: this route has as many connections to backends as it may have"
            }
            Self::BackendConnections => {
                "overloaded: the backend has as many connections as it may have"
            }
        })
    }
}
