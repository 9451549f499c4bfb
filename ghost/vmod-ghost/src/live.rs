//! How the directors of a VCL follow the configuration.
//!
//! In:  a configuration, and the one that was applied before.
//! Out: a router and pools that serve it. Only what differs is touched; everything new is
//!      made before anything is changed, so that a failure changes nothing.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use ghost_core::wire::Listener;
use ghost_core::{Action, BackendTarget, Route, Router, Rule};

use crate::answers::Answers;
use crate::director::{Refused, Vcl};
use crate::native::Native;
use crate::pool::{Endpoints, Pool};
use crate::rule::{Destination, Entry, Service};
use crate::shard::Loaded;
use crate::statistics::Statistics;
use crate::store::Store;

/// What a warm VCL serves, and what the next change starts from.
pub struct Live {
    vcl: Vcl,
    store: Arc<Store>,
    /// Ghost's own answers.
    pub answers: Arc<Answers>,
    /// The configuration that is served.
    pub applied: Arc<Loaded>,
    /// Finds the rule.
    pub router: Router<Arc<Entry>>,
    addresses: HashMap<Arc<str>, Arc<[SocketAddr]>>,
    pools: HashMap<Arc<str>, Used>,
    natives: HashMap<SocketAddr, Weak<Native>>,
}

/// A pool, and how many backends of routes name it.
struct Used {
    pool: Arc<Pool>,
    times: usize,
}

/// What a change is going to bring.
struct Draft {
    addresses: HashMap<Arc<str>, Option<Arc<[SocketAddr]>>>,
    /// Pools that backends of changed routes name, with how often they will be named.
    used: HashMap<Arc<str>, Used>,
    natives: HashMap<SocketAddr, Arc<Native>>,
    statistics: Statistics,
    replaced: Vec<(Arc<Pool>, Endpoints)>,
}

/// What a change took out of use. Dropping it may take long.
#[derive(Default)]
pub struct Retired {
    pools: Vec<Arc<Pool>>,
    endpoints: Vec<Arc<Endpoints>>,
}

impl Retired {
    /// Whether there is nothing that could take long.
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty() && self.endpoints.is_empty()
    }
}

impl Live {
    /// Serve nothing yet.
    pub fn new(vcl: Vcl, store: Arc<Store>, answers: Answers) -> Self {
        Self {
            vcl,
            store,
            answers: Arc::new(answers),
            applied: Arc::default(),
            router: Router::new(),
            addresses: HashMap::new(),
            pools: HashMap::new(),
            natives: HashMap::new(),
        }
    }

    /// Serve `loaded`, or go on as before.
    pub fn apply(&mut self, loaded: &Arc<Loaded>) -> Result<Retired, Refused> {
        let mut draft = Draft {
            addresses: loaded.changed_pools(&self.applied),
            used: HashMap::new(),
            natives: HashMap::new(),
            statistics: Statistics::new(self.vcl),
            replaced: Vec::new(),
        };
        let router = self.changed_router(loaded, &mut draft)?;
        self.change_endpoints(&mut draft)?;
        Ok(self.commit(draft, router, loaded))
    }

    /// New endpoints for pools that stay in use. One that no route names any more is left
    /// alone: requests that were routed before are still on their way to it.
    fn change_endpoints(&self, draft: &mut Draft) -> Result<(), Refused> {
        for (name, addresses) in draft.addresses.clone() {
            let used = draft.used.get(&name).or_else(|| self.pools.get(&name));
            let Some(used) = used.filter(|used| used.times > 0) else { continue };
            let pool = Arc::clone(&used.pool);
            let endpoints = self.endpoints(draft, &addresses.unwrap_or_default())?;
            draft.replaced.push((pool, endpoints));
        }
        Ok(())
    }

    fn changed_router(
        &self,
        loaded: &Loaded,
        draft: &mut Draft,
    ) -> Result<Router<Arc<Entry>>, Refused> {
        let mut router = self.router.clone();
        if !loaded.listeners().eq(self.applied.listeners()) {
            let listeners: Vec<Listener> = loaded.listeners().cloned().collect();
            router.set_listeners(&listeners);
        }
        for (key, route) in loaded.changed_routes(&self.applied) {
            if let Some(route) = &route {
                self.insert(&mut router, route, draft)?;
            } else {
                router.remove_route(&key);
            }
            if let Some(before) = self.router.route(&key) {
                self.release_pools(before, draft);
            }
        }
        Ok(router)
    }

    fn insert(
        &self,
        router: &mut Router<Arc<Entry>>,
        route: &Arc<Route>,
        draft: &mut Draft,
    ) -> Result<(), Refused> {
        let counters = self.store.counters_of(route.key());
        let entry = |rule: &Arc<Rule>| {
            let service = Service {
                destinations: self.destinations(rule, draft)?,
                answers: Arc::clone(&self.answers),
                counters: Arc::clone(&counters),
            };
            Entry::new(self.vcl, rule, service)
        };
        let entries = route.rules().iter().map(entry).collect::<Result<Vec<_>, Refused>>()?;
        router.insert_route(route, |rule| Arc::clone(&entries[rule.index]));
        Ok(())
    }

    fn destinations(&self, rule: &Rule, draft: &mut Draft) -> Result<Box<[Destination]>, Refused> {
        let answer = |director| Ok(Box::from([Destination::Answer(director)]));
        match &rule.action {
            Action::Redirect(_) => answer(Arc::clone(&self.answers.redirect)),
            Action::Status(status) => answer(self.answers.status(*status)?),
            Action::Backends(backends) => {
                let destination = |target: &BackendTarget| match target {
                    BackendTarget::Pool(name) => self.pool(draft, name).map(Destination::Pool),
                    BackendTarget::Status(status) => {
                        self.answers.status(*status).map(Destination::Answer)
                    }
                };
                let mut all = backends.all().iter().map(|backend| &backend.target);
                all.by_ref().map(destination).collect()
            }
        }
    }

    /// The pool of a name: the one that is there, or a new one. It is used once more.
    fn pool(&self, draft: &mut Draft, name: &Arc<str>) -> Result<Arc<Pool>, Refused> {
        if let Some(used) = self.used(draft, name) {
            used.times += 1;
            return Ok(Arc::clone(&used.pool));
        }
        let addresses = match draft.addresses.get(name) {
            Some(changed) => changed.clone(),
            None => self.addresses.get(name).cloned(),
        };
        let endpoints = self.endpoints(draft, &addresses.unwrap_or_default())?;
        let pool = Arc::new(Pool::new(self.vcl, name, endpoints)?);
        draft.used.insert(Arc::clone(name), Used { pool: Arc::clone(&pool), times: 1 });
        Ok(pool)
    }

    /// The backends of `route` don't use their pools any more.
    fn release_pools(&self, route: &Route, draft: &mut Draft) {
        for rule in route.rules() {
            let Action::Backends(backends) = &rule.action else { continue };
            for backend in backends.all() {
                let BackendTarget::Pool(name) = &backend.target else { continue };
                if let Some(used) = self.used(draft, name) {
                    used.times -= 1;
                }
            }
        }
    }

    /// The draft of how a pool is used, begun from how it is used now.
    fn used<'d>(&self, draft: &'d mut Draft, name: &Arc<str>) -> Option<&'d mut Used> {
        if !draft.used.contains_key(name) {
            let Used { pool, times } = self.pools.get(name)?;
            let used = Used { pool: Arc::clone(pool), times: *times };
            draft.used.insert(Arc::clone(name), used);
        }
        draft.used.get_mut(name)
    }

    fn endpoints(&self, draft: &mut Draft, all: &[SocketAddr]) -> Result<Endpoints, Refused> {
        all.iter().map(|address| self.native(draft, *address)).collect()
    }

    fn native(&self, draft: &mut Draft, address: SocketAddr) -> Result<Arc<Native>, Refused> {
        let here = self.natives.get(&address).and_then(Weak::upgrade);
        if let Some(native) = here.or_else(|| draft.natives.get(&address).cloned()) {
            return Ok(native);
        }
        let native = Arc::new(Native::new(self.vcl, address, &mut draft.statistics)?);
        draft.natives.insert(address, Arc::clone(&native));
        Ok(native)
    }

    /// Nothing here can fail.
    fn commit(
        &mut self,
        draft: Draft,
        router: Router<Arc<Entry>>,
        loaded: &Arc<Loaded>,
    ) -> Retired {
        let mut retired = Retired::default();
        for (name, addresses) in draft.addresses {
            match addresses {
                Some(addresses) => self.addresses.insert(name, addresses),
                None => self.addresses.remove(&name),
            };
        }
        for (name, used) in draft.used {
            if used.times > 0 {
                self.pools.insert(name, used);
            } else {
                self.pools.remove(&name);
                retired.pools.push(used.pool);
            }
        }
        for (pool, endpoints) in draft.replaced {
            retired.endpoints.push(pool.replace(endpoints));
        }
        self.router = router;
        self.applied = Arc::clone(loaded);
        self.keep_natives(&draft.natives);
        retired
    }

    /// Entries of backends that are gone are dropped when the map would have to grow, so
    /// that a change does not cost a walk over everything.
    fn keep_natives(&mut self, new: &HashMap<SocketAddr, Arc<Native>>) {
        if self.natives.len() + new.len() > self.natives.capacity() {
            self.natives.retain(|_, native| native.strong_count() > 0);
        }
        self.natives.extend(new.iter().map(|(address, native)| (*address, Arc::downgrade(native))));
    }
}
