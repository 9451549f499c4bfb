//! The director of a pool: it spreads fetches evenly over its endpoints.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::fetch;
use crate::varnish::{
    Ask, Balance, Director, Fetch, Group, Kind, Methods, Native, Refused, Tally, Vcl,
};

/// The endpoints of a pool. A change replaces the whole list; fetches under way keep theirs.
pub type Endpoints = Arc<[Arc<Native>]>;

/// A pool in a VCL.
pub struct Pool {
    director: Director,
    members: Arc<Members>,
}

/// The endpoints, and how many there are. The number needs no reference to them.
struct Members {
    endpoints: ArcSwap<Endpoints>,
    count: AtomicUsize,
}

impl Pool {
    /// Add a pool to a VCL.
    pub fn new(vcl: &Vcl, name: &str, endpoints: Endpoints) -> Result<Self, Refused> {
        let count = AtomicUsize::new(endpoints.len());
        let members = Arc::new(Members { endpoints: ArcSwap::from_pointee(endpoints), count });
        let kind = PoolDirector(Arc::clone(&members));
        let director = Director::add(vcl, &format!("pool({name})"), kind)?;
        Ok(Self { director, members })
    }

    /// Replace the endpoints; returns the former ones.
    pub fn replace(&self, endpoints: Endpoints) -> Arc<Endpoints> {
        let count = endpoints.len();
        let before = self.members.endpoints.swap(Arc::new(endpoints));
        self.members.count.store(count, Ordering::Relaxed);
        before
    }

    /// Whether it has no endpoint.
    pub fn is_empty(&self) -> bool {
        self.members.count() == 0
    }

    /// Its director.
    pub fn director(&self) -> &Director {
        &self.director
    }
}

impl Members {
    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

struct PoolDirector(Arc<Members>);

impl PoolDirector {
    fn endpoints(&self) -> Endpoints {
        Endpoints::clone(&self.0.endpoints.load())
    }
}

impl Kind for PoolDirector {
    fn methods() -> &'static Methods<Self> {
        static METHODS: Methods<PoolDirector> = Methods::balancing(c"ghost-pool");
        &METHODS
    }
}

impl Group for PoolDirector {
    fn is_healthy(&self, ask: Ask<'_>) -> bool {
        self.endpoints().iter().any(|native| ask(native.director()))
    }

    /// Endpoints have no probes. One that an administrator declares sick counts here, and is
    /// sick in its own line.
    fn tally(&self, _: Ask<'_>) -> Tally {
        let all = self.0.count();
        #[cfg(feature = "test-panic")]
        crate::varnish::hold("list");
        Tally { usable: all, all }
    }
}

impl Balance for PoolDirector {
    fn fetch(&self, fetch: &mut Fetch<'_>) {
        fetch::with_retries(fetch, &self.endpoints());
        fetch::hand_over(fetch);
    }

    fn piped(&self, pipe: &Fetch<'_>, status: u16) {
        fetch::count_pipe(pipe, status);
    }
}
