//! The directors of a VCL, built from the configuration.
//!
//! In:  a configuration, and the one that was applied before.
//! Out: a router and pools that serve it. Only what differs is touched. Everything new is
//!      created before anything changes, so that a failure changes nothing.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use ghost_core::cache::Attached;
use ghost_core::shares::{namespace_of, SharedLimits};
use ghost_core::wire::Listener;
use ghost_core::{Action, BackendTarget, Route, Router, Rule};

use super::pool::{Endpoints, Pool};
use super::rule::{Destination, Entry, Service};
use super::shard::Loaded;
use super::store::{shares, Store};
use crate::cache::ListenerPolicies;
use crate::request::Responses;
use crate::varnish::{Native, Refused, Statistics, Vcl};

/// What a warm VCL serves, and what the next change starts from.
pub struct Directors {
    vcl: Vcl,
    store: Arc<Store>,
    /// Ghost's own responses.
    pub responses: Arc<Responses>,
    /// The configuration that is served.
    pub applied: Arc<Loaded>,
    /// Finds the rule.
    pub router: Router<Arc<Entry>>,
    /// The limits of shares, for every rule.
    limits: Arc<SharedLimits>,
    /// The cache policies of listeners.
    pub listener_policies: Arc<ListenerPolicies>,
    addresses: HashMap<Arc<str>, Arc<[SocketAddr]>>,
    pools: HashMap<Arc<str>, PoolUse>,
    natives: HashMap<SocketAddr, Weak<Native>>,
}

/// A pool, and how many backends of routes name it.
struct PoolUse {
    pool: Arc<Pool>,
    times: usize,
}

/// What a change is going to create and replace.
struct Change {
    addresses: HashMap<Arc<str>, Option<Arc<[SocketAddr]>>>,
    /// Pools that backends of changed routes name, with how often they will be named.
    used: HashMap<Arc<str>, PoolUse>,
    natives: HashMap<SocketAddr, Arc<Native>>,
    statistics: Statistics,
    replaced: Vec<(Arc<Pool>, Endpoints)>,
}

/// What a change retired. Dropping it may take long.
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

impl Directors {
    /// Serve nothing yet.
    pub fn new(vcl: Vcl, store: Arc<Store>, responses: Responses) -> Self {
        Self {
            vcl,
            store,
            responses: Arc::new(responses),
            applied: Arc::default(),
            router: Router::new(),
            limits: Arc::default(),
            listener_policies: Arc::default(),
            addresses: HashMap::new(),
            pools: HashMap::new(),
            natives: HashMap::new(),
        }
    }

    /// Serve `loaded`; on failure, keep serving what was applied before.
    pub fn apply(&mut self, loaded: &Arc<Loaded>) -> Result<Retired, Refused> {
        let mut change = Change {
            addresses: loaded.changed_pools(&self.applied),
            used: HashMap::new(),
            natives: HashMap::new(),
            statistics: Statistics::default(),
            replaced: Vec::new(),
        };
        let router = self.changed_router(loaded, &mut change)?;
        self.change_endpoints(&mut change)?;
        Ok(self.commit(change, router, loaded))
    }

    /// New endpoints for pools that stay in use. A pool that no route names any more keeps
    /// its endpoints: requests that were routed before are still on their way to it.
    fn change_endpoints(&self, change: &mut Change) -> Result<(), Refused> {
        for (name, addresses) in change.addresses.clone() {
            let used = change.used.get(&name).or_else(|| self.pools.get(&name));
            let Some(used) = used.filter(|used| used.times > 0) else { continue };
            let pool = Arc::clone(&used.pool);
            let endpoints = self.endpoints(change, &addresses.unwrap_or_default())?;
            change.replaced.push((pool, endpoints));
        }
        Ok(())
    }

    fn changed_router(
        &self,
        loaded: &Loaded,
        change: &mut Change,
    ) -> Result<Router<Arc<Entry>>, Refused> {
        let mut router = self.router.clone();
        if !loaded.listeners().eq(self.applied.listeners()) {
            let listeners: Vec<Listener> = loaded.listeners().cloned().collect();
            router.set_listeners(&listeners);
        }
        for (key, route) in loaded.changed_routes(&self.applied) {
            if let Some(route) = &route {
                self.insert(&mut router, route, change)?;
            } else {
                router.remove_route(&key);
            }
            if let Some(before) = self.router.route(&key) {
                self.release_pools(before, change);
            }
        }
        Ok(router)
    }

    fn insert(
        &self,
        router: &mut Router<Arc<Entry>>,
        route: &Arc<Route>,
        change: &mut Change,
    ) -> Result<(), Refused> {
        let counters = self.store.counters_of(route.key());
        let share = shares().route(route.key());
        let entry = |rule: &Arc<Rule>| {
            let service = Service {
                destinations: self.destinations(rule, namespace_of(route.key()), change)?,
                responses: Arc::clone(&self.responses),
                counters: Arc::clone(&counters),
                share: Arc::clone(&share),
                limits: Arc::clone(&self.limits),
            };
            Entry::new(&self.vcl, rule, service)
        };
        let entries = route.rules().iter().map(entry).collect::<Result<Vec<_>, Refused>>()?;
        router.insert_route(route, |rule| Arc::clone(&entries[rule.index]));
        Ok(())
    }

    fn destinations(
        &self,
        rule: &Rule,
        namespace: &str,
        change: &mut Change,
    ) -> Result<Box<[Destination]>, Refused> {
        let response = |director| Ok(Box::from([Destination::Response(director)]));
        match &rule.action {
            Action::Redirect(_) => response(Arc::clone(&self.responses.redirect)),
            Action::Status(status) => response(self.responses.status(*status)?),
            Action::Backends(backends) => {
                let destination = |target: &BackendTarget| match target {
                    BackendTarget::Pool(name) => {
                        let share = shares().backend(namespace, name);
                        self.pool(change, name).map(|pool| Destination::Pool(pool, share))
                    }
                    BackendTarget::Status(status) => {
                        self.responses.status(*status).map(Destination::Response)
                    }
                };
                let mut all = backends.all().iter().map(|backend| &backend.target);
                all.by_ref().map(destination).collect()
            }
        }
    }

    /// The pool of a name, existing or new, with its use counted once more.
    fn pool(&self, change: &mut Change, name: &Arc<str>) -> Result<Arc<Pool>, Refused> {
        if let Some(used) = self.used(change, name) {
            used.times += 1;
            return Ok(Arc::clone(&used.pool));
        }
        let addresses = match change.addresses.get(name) {
            Some(changed) => changed.clone(),
            None => self.addresses.get(name).cloned(),
        };
        let endpoints = self.endpoints(change, &addresses.unwrap_or_default())?;
        let pool = Arc::new(Pool::new(&self.vcl, name, endpoints)?);
        change.used.insert(Arc::clone(name), PoolUse { pool: Arc::clone(&pool), times: 1 });
        Ok(pool)
    }

    /// The backends of `route` don't use their pools any more.
    fn release_pools(&self, route: &Route, change: &mut Change) {
        for rule in route.rules() {
            let Action::Backends(backends) = &rule.action else { continue };
            for backend in backends.all() {
                let BackendTarget::Pool(name) = &backend.target else { continue };
                if let Some(used) = self.used(change, name) {
                    used.times -= 1;
                }
            }
        }
    }

    /// How a pool will be used after the change.
    fn used<'d>(&self, change: &'d mut Change, name: &Arc<str>) -> Option<&'d mut PoolUse> {
        if !change.used.contains_key(name) {
            let PoolUse { pool, times } = self.pools.get(name)?;
            let used = PoolUse { pool: Arc::clone(pool), times: *times };
            change.used.insert(Arc::clone(name), used);
        }
        change.used.get_mut(name)
    }

    fn endpoints(&self, change: &mut Change, all: &[SocketAddr]) -> Result<Endpoints, Refused> {
        all.iter().map(|address| self.native(change, *address)).collect()
    }

    fn native(&self, change: &mut Change, address: SocketAddr) -> Result<Arc<Native>, Refused> {
        let here = self.natives.get(&address).and_then(Weak::upgrade);
        if let Some(native) = here.or_else(|| change.natives.get(&address).cloned()) {
            return Ok(native);
        }
        let native = Arc::new(Native::new(&self.vcl, address, &mut change.statistics)?);
        change.natives.insert(address, Arc::clone(&native));
        Ok(native)
    }

    /// Nothing here can fail.
    fn commit(
        &mut self,
        change: Change,
        router: Router<Arc<Entry>>,
        loaded: &Arc<Loaded>,
    ) -> Retired {
        let mut retired = Retired::default();
        for (name, addresses) in change.addresses {
            match addresses {
                Some(addresses) => self.addresses.insert(name, addresses),
                None => self.addresses.remove(&name),
            };
        }
        for (name, used) in change.used {
            if used.times > 0 {
                self.pools.insert(name, used);
            } else {
                self.pools.remove(&name);
                retired.pools.push(used.pool);
            }
        }
        for (pool, endpoints) in change.replaced {
            retired.endpoints.push(pool.replace(endpoints));
        }
        if !loaded.listeners().eq(self.applied.listeners()) {
            self.listener_policies = Arc::new(listener_policies(loaded.listeners()));
        }
        self.router = router;
        self.limits.set(&loaded.requests().limits);
        self.applied = Arc::clone(loaded);
        self.keep_natives(&change.natives);
        retired
    }

    /// Entries of destroyed backends are dropped when the map would have to grow, so that a
    /// change does not cost a walk over everything.
    fn keep_natives(&mut self, new: &HashMap<SocketAddr, Arc<Native>>) {
        if self.natives.len() + new.len() > self.natives.capacity() {
            self.natives.retain(|_, native| native.strong_count() > 0);
        }
        self.natives.extend(new.iter().map(|(address, native)| (*address, Arc::downgrade(native))));
    }
}

fn listener_policies<'l>(listeners: impl Iterator<Item = &'l Listener>) -> ListenerPolicies {
    let policies = listeners.filter_map(|listener| {
        let policy = listener.cache.as_ref()?;
        Some((listener.name.as_str().into(), Attached::new(policy)))
    });
    policies.collect()
}
