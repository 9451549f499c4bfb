//! The director of a pool: it spreads fetches evenly over its endpoints.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::fetch;
use crate::varnish::{Balance, Director, Fetch, Group, Kind, Methods, Native, Refused, Vcl};

/// The endpoints of a pool. A change replaces the whole list; fetches under way keep theirs.
pub type Endpoints = Arc<[Arc<Native>]>;

/// A pool in a VCL.
pub struct Pool {
    director: Director,
    endpoints: Arc<ArcSwap<Endpoints>>,
}

impl Pool {
    /// Add a pool to a VCL.
    pub fn new(vcl: &Vcl, name: &str, endpoints: Endpoints) -> Result<Self, Refused> {
        let endpoints = Arc::new(ArcSwap::from_pointee(endpoints));
        let kind = PoolDirector(Arc::clone(&endpoints));
        let director = Director::add(vcl, &format!("pool({name})"), kind)?;
        Ok(Self { director, endpoints })
    }

    /// Replace the endpoints; returns the former ones.
    pub fn replace(&self, endpoints: Endpoints) -> Arc<Endpoints> {
        self.endpoints.swap(Arc::new(endpoints))
    }

    /// Whether it has no endpoint.
    pub fn is_empty(&self) -> bool {
        self.endpoints.load().is_empty()
    }

    /// Its director.
    pub fn director(&self) -> &Director {
        &self.director
    }
}

struct PoolDirector(Arc<ArcSwap<Endpoints>>);

impl PoolDirector {
    fn endpoints(&self) -> Endpoints {
        Endpoints::clone(&self.0.load())
    }
}

impl Kind for PoolDirector {
    fn methods() -> &'static Methods<Self> {
        static METHODS: Methods<PoolDirector> = Methods::balancing(c"ghost-pool");
        &METHODS
    }
}

impl Group for PoolDirector {
    fn for_each(&self, each: &mut dyn FnMut(&Director)) {
        self.0.load().iter().for_each(|native| each(native.director()));
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
