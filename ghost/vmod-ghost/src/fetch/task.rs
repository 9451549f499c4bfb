//! What ghost remembers about a fetch.

use std::sync::Arc;

use super::upgrade::Handover;
use crate::config::Target;
use crate::varnish::{Slot, Task};

/// About a fetch.
#[derive(Default)]
pub struct FetchTask {
    /// The match of the rule that the fetch is for.
    pub target: Option<Arc<Target>>,
    /// Which of the rule's backends was chosen.
    pub backend: Option<usize>,
    /// Whether a response of ghost's own was kept out of the cache. varnishd would remember
    /// that for what user VCL fetches in its stead.
    pub withheld: bool,
    /// Whether bereq bears the gateway's CDN-Loop; a retry in VCL keeps it.
    pub marked: bool,
    /// Whose client waits for the connection, if the endpoint upgrades.
    pub upgrade: Option<Arc<Handover>>,
    /// Status and Location of a redirect.
    pub redirect: Option<(u16, Vec<u8>)>,
}

impl Task for FetchTask {
    fn slot() -> &'static Slot<Self> {
        static SLOT: Slot<FetchTask> = Slot::new(c"ghost fetch task");
        &SLOT
    }
}
