//! Ghost in one VCL.
//!
//! Requests read what is [`Served`] and hold no lock. A reload, and a VCL that has to
//! catch up with one, change [`Directors`] under a lock and serve a new snapshot.

use std::ffi::CStr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use ghost_core::{OverBudget, Router};
use ghost_sync::{Served, Swapped};

use super::directors::{Directors, Retired};
use super::retirement::Retirement;
use super::rule::Entry;
use super::shard::{Loaded, Requests};
use super::store::Store;
use crate::cache::ListenerPolicies;
use crate::request::Responses;
use crate::varnish::{panic_message, Held, Refused, Vcl};

/// Names the configuration file, unless `init()` does.
const PATH_VARIABLE: &str = "GHOST_CONFIG_PATH";

/// varnishd's workers have 80 kB, too little to read a configuration.
const STACK_SIZE: usize = 4 << 20;

/// A VCL that could not catch up tries again after this time, not with every request.
const NEXT_TRY: Duration = Duration::from_secs(1);

/// What requests see.
pub struct Snapshot {
    /// Of which configuration.
    pub generation: u64,
    /// Finds the rule.
    pub router: Router<Arc<Entry>>,
    /// What holds for every request.
    pub requests: Arc<Requests>,
    /// Ghost's own responses.
    pub responses: Arc<Responses>,
    /// The cache policies of listeners.
    pub listener_policies: Arc<ListenerPolicies>,
    over_budget: Arc<AtomicU64>,
}

impl Snapshot {
    /// Count a request that rules or a cache policy take too many steps for, and respond to it.
    pub fn reject_over_budget(&self, part: OverBudget) -> Held {
        self.over_budget.fetch_add(1, Relaxed);
        Held::new(Arc::clone(&self.responses), |all| all.over_budget(part))
    }
}

/// Ghost in one VCL.
pub struct Instance {
    vcl: Vcl,
    store: OnceLock<Arc<Store>>,
    /// Nothing while the VCL is cold.
    served: Served<(Directors, Retirement), Snapshot>,
    /// The thread that catches up holds the lock. When that last failed.
    behind: Mutex<Option<Instant>>,
}

impl Instance {
    /// Ghost in a VCL that is being loaded.
    pub fn new(vcl: Vcl) -> Arc<Self> {
        Arc::new(Self {
            vcl,
            store: OnceLock::new(),
            served: Served::nothing(),
            behind: Mutex::new(None),
        })
    }

    /// Use the configuration at `path`, or where the environment says if it is empty. The
    /// file must be readable now.
    pub fn init(&self, path: &CStr) -> Result<(), String> {
        let store = Store::of(&config_path(path)?);
        on_own_thread(|| store.reload(|_| Ok(())))?;
        self.store.set(store).map_err(|_| "ghost.init() was called twice".to_owned())
    }

    /// Start serving: the VCL became warm.
    pub fn warm(self: &Arc<Self>) -> Result<(), String> {
        let store = self.store().ok_or("vcl_init does not call ghost.init()")?;
        let responses = Responses::new(&self.vcl, &Arc::downgrade(self)).map_err(text)?;
        let directors = Directors::new(self.vcl.clone(), Arc::clone(store), responses);
        self.served.start((directors, Retirement::default()));
        on_own_thread(|| self.apply(&store.current()))
    }

    /// Release every director: the VCL became cold, or varnishd discards it.
    pub fn cool(&self) {
        self.served.stop();
    }

    /// The store of its configuration, once `init` was called.
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.store.get()
    }

    /// What to serve a request with; None while the VCL is cold. If another VCL has
    /// reloaded the configuration since, one request catches up first; meanwhile the others
    /// are served with the configuration that this VCL has.
    pub fn snapshot(&self) -> Swapped<Snapshot> {
        let snapshot = self.served.current();
        let (Some(served), Some(store)) = (snapshot.as_ref(), self.store()) else {
            return snapshot;
        };
        if served.generation >= store.generation() {
            return snapshot;
        }
        self.catch_up(store);
        self.served.current()
    }

    /// Serve what another VCL has loaded, unless another request is doing so or has just failed.
    #[cold]
    fn catch_up(&self, store: &Store) {
        let mut failed = match self.behind.try_lock() {
            Ok(failed) => failed,
            Err(TryLockError::Poisoned(failed)) => failed.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if failed.is_none_or(|moment| moment.elapsed() > NEXT_TRY) {
            let caught_up = on_own_thread(|| self.apply(&store.current()));
            *failed = caught_up.err().map(|_| Instant::now());
        }
    }

    /// Read the configuration again and serve it.
    pub fn reload(&self) -> Result<Arc<Loaded>, String> {
        let store = self.store().ok_or("nothing is loaded")?;
        #[cfg(feature = "test-panic")]
        crate::varnish::hold("reload");
        on_own_thread(|| store.reload(|loaded| self.apply(loaded)))
    }

    fn apply(&self, loaded: &Arc<Loaded>) -> Result<(), String> {
        let applied = self.served.change(|(directors, retirement), serve| {
            let mut retired = Retired::default();
            if loaded.generation > directors.applied.generation {
                retired = directors.apply(loaded).map_err(text)?;
            }
            let before = serve(self.snapshot_of(directors));
            if !retired.is_empty() {
                retirement.add((before, retired));
            }
            Ok(())
        });
        applied.unwrap_or(Ok(()))
    }

    fn snapshot_of(&self, directors: &Directors) -> Snapshot {
        let over_budget = self.store().map(|store| Arc::clone(&store.over_budget));
        Snapshot {
            generation: directors.applied.generation,
            requests: directors.applied.requests(),
            router: directors.router.clone(),
            responses: Arc::clone(&directors.responses),
            listener_policies: Arc::clone(&directors.listener_policies),
            over_budget: over_budget.unwrap_or_default(),
        }
    }
}

fn text(refused: Refused) -> String {
    refused.0.to_owned()
}

fn config_path(given: &CStr) -> Result<PathBuf, String> {
    let given = given.to_str().map_err(|_| "the path is not UTF-8".to_owned())?;
    if !given.is_empty() {
        return Ok(given.into());
    }
    let from_environment = std::env::var_os(PATH_VARIABLE).map(PathBuf::from);
    from_environment.ok_or(format!("neither a path nor {PATH_VARIABLE} is given"))
}

/// Run this on a thread with more stack than a worker of varnishd's has.
pub fn on_own_thread<T: Send>(
    work: impl FnOnce() -> Result<T, String> + Send,
) -> Result<T, String> {
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("ghost-reload".into()).stack_size(STACK_SIZE);
        let running =
            builder.spawn_scoped(scope, work).map_err(|error| format!("no thread: {error}"))?;
        running
            .join()
            .unwrap_or_else(|payload| Err(format!("panic: {}", panic_message(payload.as_ref()))))
    })
}
