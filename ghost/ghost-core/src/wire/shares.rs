//! Shares of varnishd's workers on the wire.

use serde::{Deserialize, Serialize};

/// How much the requests of one namespace, route or backend may hold at the same time. A
/// percentage is one of what others leave: 100 is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct WorkerShares {
    /// Percent of the workers that other namespaces leave.
    pub namespace: u32,
    /// Percent of the workers that other routes leave to the namespace.
    pub route: u32,
    /// Percent of the workers that other backends leave to the namespace.
    pub backend: u32,
    /// A route that holds more than this gets no further WebSocket; percent as for `route`.
    pub web_sockets: u32,
    /// The most connections to endpoints for one route.
    pub route_connections: Option<u32>,
    /// The most connections to the endpoints of one backend.
    pub backend_connections: Option<u32>,
}

impl Default for WorkerShares {
    fn default() -> Self {
        Self {
            namespace: 75,
            route: 50,
            backend: 70,
            web_sockets: 25,
            route_connections: None,
            backend_connections: None,
        }
    }
}
