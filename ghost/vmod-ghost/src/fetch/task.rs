//! What ghost remembers about a fetch.

use std::sync::Arc;
use std::time::Duration;

use ghost_core::shares::{HeldConnection, HeldWebSocket, HeldWorkers};
use ghost_sync::Handover;

use super::upgrade::Upgraded;
use crate::cache::Prepared;
use crate::config::Target;
use crate::varnish::{Slot, Task};

/// About a fetch.
#[derive(Default)]
pub struct FetchTask {
    /// The match of the rule that the fetch is for.
    pub target: Option<Arc<Target>>,
    /// Which of the rule's backends was chosen.
    pub backend: Option<usize>,
    /// The cache policy that it is under.
    pub prepared: Option<Prepared>,
    /// The request that gets a stale object in its place, if there is one.
    pub waiting: Option<u64>,
    /// For how long requests don't wait for each other, where the fetch has left the object that
    /// it was to replace: also after a retry in VCL.
    pub kept: Option<Duration>,
    /// Whether a response of ghost's own was kept out of the cache. varnishd would remember
    /// that for what user VCL fetches in its stead.
    pub withheld: bool,
    /// Whether the request announced a body that is gone. bereq does not say so any more.
    pub bodiless: bool,
    /// Whether bereq bears the gateway's CDN-Loop; a retry in VCL keeps it.
    pub marked: bool,
    /// Whose client waits for the connection, if the endpoint upgrades.
    pub upgrade: Option<Arc<Handover<Upgraded>>>,
    /// The worker that fetches, in the share of its route.
    pub worker: Option<HeldWorkers>,
    /// The connection to an endpoint, in the shares of route and backend.
    pub connection: Option<HeldConnection>,
    /// The WebSocket that it may become, in the share of its route.
    pub web_socket: Option<HeldWebSocket>,
    /// Status and Location of a redirect.
    pub redirect: Option<(u16, Vec<u8>)>,
}

impl Task for FetchTask {
    fn slot() -> &'static Slot<Self> {
        static SLOT: Slot<FetchTask> = Slot::new(c"ghost fetch task");
        &SLOT
    }
}
