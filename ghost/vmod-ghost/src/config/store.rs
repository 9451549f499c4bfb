//! What is loaded from each configuration path, for every VCL of the process.
//!
//! A reload replaces the current configuration here and applies it to the VCL that asked for
//! it. Any other VCL notices by the generation, at its next request or when it becomes warm.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{json, Map, Value};

use super::counters::Counters;
use super::shard::Loaded;

/// What is loaded from one path.
pub struct Store {
    path: PathBuf,
    generation: AtomicU64,
    current: Mutex<Arc<Loaded>>,
    counters: Mutex<HashMap<Arc<str>, Arc<Counters>>>,
    /// Requests that no route matched.
    pub unrouted: Arc<Counters>,
    /// Requests among these that regular expressions take too many steps for.
    pub over_budget: Arc<AtomicU64>,
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
            generation: AtomicU64::new(0),
            current: Mutex::default(),
            counters: Mutex::default(),
            unrouted: Arc::default(),
            over_budget: Arc::default(),
        });
        stores.push(Arc::clone(&store));
        store
    }

    /// The generation that is in force.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// What is in force.
    pub fn current(&self) -> Arc<Loaded> {
        Arc::clone(&lock(&self.current))
    }

    /// Read the path and put it in force, unless `apply` fails. A failure changes nothing.
    pub fn reload(
        &self,
        apply: impl FnOnce(&Arc<Loaded>) -> Result<(), String>,
    ) -> Result<Arc<Loaded>, String> {
        let mut current = lock(&self.current);
        let read = Loaded::read(&self.path, &current)?;
        if read.equals(&current) {
            apply(&current)?;
            return Ok(Arc::clone(&current));
        }
        let new = Arc::new(read);
        apply(&new)?;
        self.forget_counters(&current, &new);
        *current = Arc::clone(&new);
        self.generation.store(new.generation, Ordering::Release);
        Ok(new)
    }

    /// The counters of a route, from zero if it is new.
    pub fn counters_of(&self, route: &Arc<str>) -> Arc<Counters> {
        Arc::clone(lock(&self.counters).entry(Arc::clone(route)).or_default())
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
        })
    }

    fn forget_counters(&self, before: &Loaded, after: &Loaded) {
        let mut counters = lock(&self.counters);
        for (route, now) in after.changed_routes(before) {
            if now.is_none() {
                counters.remove(&route);
            }
        }
    }
}

/// A panic while the lock was held left the value as it was before or after a change.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
