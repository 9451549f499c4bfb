//! The two things that ghost remembers: about a client's request, and about a fetch.

use std::sync::Arc;

use crate::attempt::Bytes;
use crate::native::Native;
use crate::rule::{Entry, Target};
use crate::sys;
use crate::task::{Slot, Task};

/// What `recv()` found for a request.
#[derive(Default)]
pub enum Outcome {
    /// Nothing, or not asked yet.
    #[default]
    Unrouted,
    /// A rule: the director of its match is in use.
    Routed(Arc<Entry>),
    /// A rule, whose CORS answers the request.
    Preflight(Arc<Entry>),
    /// The request is for ghost itself.
    Admin,
}

/// About a client's request.
#[derive(Default)]
pub struct ClientTask {
    /// What `recv()` found.
    pub outcome: Outcome,
    /// Whether the client speaks TLS.
    pub tls: bool,
    /// A digest of what it looked at first: URL, Host and method.
    pub seen: u64,
    /// The director that it returned, to be compared only.
    pub returned: usize,
}

impl Task for ClientTask {
    const SLOT: &'static Slot = {
        static SLOT: Slot = Slot::new::<ClientTask>(c"ghost client task");
        &SLOT
    };
}

/// About a fetch.
#[derive(Default)]
pub struct FetchTask {
    /// The match of the rule that the fetch is for.
    pub target: Option<Arc<Target>>,
    /// Which of the rule's backends was chosen.
    pub backend: Option<usize>,
    /// The director that serves it, to be compared only.
    pub returned: usize,
    /// Whether an answer of ghost's own was kept from the cache. varnishd would remember that
    /// for what user VCL fetches in its stead.
    pub withheld: bool,
    /// Status and Location of a redirect.
    pub redirect: Option<(u16, Vec<u8>)>,
    served: Option<(Arc<Native>, Bytes)>,
}

impl Task for FetchTask {
    const SLOT: &'static Slot = {
        static SLOT: Slot = Slot::new::<FetchTask>(c"ghost fetch task");
        &SLOT
    };
}

impl FetchTask {
    /// The response comes from `native`; failed attempts before it took `earlier` bytes.
    pub fn serve_from(&mut self, native: Arc<Native>, earlier: Bytes) {
        self.served = Some((native, earlier));
    }

    /// Where the response comes from.
    pub fn served(&mut self) -> Option<(Arc<Native>, Bytes)> {
        self.served.as_ref().map(|(native, earlier)| (Arc::clone(native), *earlier))
    }
}

/// For comparing directors that may be gone.
pub fn address_of(director: sys::VCL_BACKEND) -> usize {
    director as usize
}
