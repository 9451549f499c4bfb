//! What is loaded from each configuration path, for every VCL of the process.
//!
//! A reload replaces the current configuration here and applies it to the VCL that asked for
//! it. Any other VCL notices by the generation, at its next request or when it becomes warm.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use ghost_core::shares::{namespace_of, RouteShare, Shares};
use ghost_core::Route;
use ghost_sync::{Generation, Holders, Published};
use serde_json::{json, Map, Value};

use super::counters::Counters;
use super::purge_counters::PurgeCounters;
use super::shard::Loaded;
use crate::cache;
use crate::varnish::{unused_times, workers_for_requests};

/// What is loaded from one path.
pub struct Store {
    path: PathBuf,
    loaded: Published<Loaded>,
    counters: Mutex<HashMap<Arc<str>, Arc<Counters>>>,
    /// How many requests for routes of a namespace wait for a retry now.
    pausing: Mutex<HashMap<Box<str>, Weak<Holders>>>,
    /// Requests that no route matched.
    pub unrouted: Arc<Counters>,
    /// Requests that rules or a cache policy take too many steps for.
    pub over_budget: Arc<AtomicU64>,
    /// Requests of clients that ask for an invalidation.
    pub purges: PurgeCounters,
    /// What the requests that no route matched may hold.
    pub unrouted_share: Arc<RouteShare>,
    /// What fetches from backends that user VCL declares may hold.
    pub foreign_share: Arc<RouteShare>,
}

impl Store {
    /// The store of a path; the same one for every VCL.
    pub fn of(path: &Path) -> Arc<Self> {
        static STORES: Mutex<Vec<Arc<Store>>> = Mutex::new(Vec::new());
        let mut stores = lock(&STORES);
        if let Some(store) = stores.iter().find(|store| store.path == path) {
            return Arc::clone(store);
        }
        let store = Arc::new(Self {
            path: path.to_owned(),
            loaded: Published::new(Arc::default()),
            counters: Mutex::default(),
            pausing: Mutex::default(),
            unrouted: Arc::default(),
            over_budget: Arc::default(),
            purges: PurgeCounters::default(),
            // Each is a namespace of its own: no namespace has such a name.
            unrouted_share: shares().route(""),
            foreign_share: shares().route("(VCL)/"),
        });
        stores.push(Arc::clone(&store));
        store
    }

    /// The generation that is in force.
    pub fn generation(&self) -> u64 {
        self.loaded.generation()
    }

    /// What is in force.
    pub fn current(&self) -> Arc<Loaded> {
        self.loaded.current()
    }

    /// Read the path and put it in force, unless `apply` fails. A failure changes nothing.
    pub fn reload(
        &self,
        apply: impl FnOnce(&Arc<Loaded>) -> Result<(), String>,
    ) -> Result<Arc<Loaded>, String> {
        self.loaded.replace(|current| {
            let read = Loaded::read(&self.path, current)?;
            if read.equals(current) {
                apply(current)?;
                return Ok(None);
            }
            let new = Arc::new(read);
            apply(&new)?;
            self.forget_counters(current, &new);
            Ok(Some(new))
        })
    }

    /// The counters of a route, from zero if it is new.
    pub fn counters_of(&self, route: &Arc<str>) -> Arc<Counters> {
        let new = || {
            let pausing_in_namespace = self.pausing_in(namespace_of(route));
            Arc::new(Counters::of_route_in(pausing_in_namespace))
        };
        Arc::clone(lock(&self.counters).entry(Arc::clone(route)).or_insert_with(new))
    }

    /// The pauses of the routes of a namespace. What belongs to no route any more is removed when
    /// the map would have to grow.
    fn pausing_in(&self, namespace: &str) -> Arc<Holders> {
        let mut all = lock(&self.pausing);
        if let Some(pausing) = all.get(namespace).and_then(Weak::upgrade) {
            return pausing;
        }
        if all.len() == all.capacity() {
            all.retain(|_, pausing| pausing.strong_count() > 0);
        }
        let pausing = Arc::<Holders>::default();
        all.insert(namespace.into(), Arc::downgrade(&pausing));
        pausing
    }

    /// The counters of every route.
    pub fn counters(&self) -> Value {
        let id = self.current().id.clone();
        let counters = lock(&self.counters);
        let routes: Map<String, Value> =
            counters.iter().map(|(route, counts)| (route.to_string(), counts.to_json())).collect();
        json!({
            "id": id,
            "routes": routes,
            "unrouted": self.unrouted.to_json(),
            "overBudget": self.over_budget.load(Ordering::Relaxed),
            "purges": self.purges.to_json(),
            "workers": { "held": shares().held(), "limit": workers_for_requests() },
            "rejections": rejections(),
            "evicted": unused_times().to_json(),
            "index": cache::index_usage(),
        })
    }

    fn forget_counters(&self, before: &Loaded, after: &Loaded) {
        let mut counters = lock(&self.counters);
        let of_listeners = after.policies_of_listeners();
        for (route, now) in after.changed_routes(before) {
            match (now, counters.get(&route)) {
                (None, _) => drop(counters.remove(&route)),
                (Some(now), Some(counters)) => counters
                    .cache
                    .retain(|policy| of_listeners.contains(policy) || has_policy(&now, policy)),
                (Some(_), None) => {}
            }
        }
        let gone: Vec<&str> =
            before.policies_of_listeners().difference(&of_listeners).copied().collect();
        if !gone.is_empty() {
            for counters in counters.values() {
                counters.cache.retain(|policy| !gone.contains(&policy));
            }
        }
    }
}

/// Whether a rule of a route has a cache policy of this name.
fn has_policy(route: &Route, name: &str) -> bool {
    let policies = route.rules().iter().filter_map(|rule| rule.cache.as_ref()?.policy());
    policies.map(|policy| &*policy.name).any(|policy| policy == name)
}

impl Generation for Loaded {
    fn generation(&self) -> u64 {
        self.generation
    }
}

/// Requests that were rejected, by the share that was exhausted.
fn rejections() -> Value {
    let counts = shares().rejections();
    Value::Object(counts.map(|(share, count)| (share.name().to_owned(), count.into())).collect())
}

/// The shares of everything that requests hold in this varnishd.
pub fn shares() -> &'static Shares {
    static SHARES: OnceLock<Shares> = OnceLock::new();
    SHARES.get_or_init(Shares::default)
}

/// A panic while the lock was held left the value as it was before or after a change.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
