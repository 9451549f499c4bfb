//! Ghost in one VCL.
//!
//! Requests read an [`ArcSwapOption`] and take no lock. A reload, and a VCL that has to
//! catch up with one, change [`Live`] under a lock and swap a new snapshot in.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwapOption, Guard};
use ghost_core::Router;

use crate::answers::Answers;
use crate::director::{Refused, Vcl};
use crate::fence::panic_message;
use crate::live::{Live, Retired};
use crate::retirement::Retirement;
use crate::rule::Entry;
use crate::shard::Loaded;
use crate::store::{lock, Store};

/// varnishd's workers have 80 kB, too little to read a configuration.
const STACK_SIZE: usize = 4 << 20;

/// Who could not catch up tries again after this time, not with every request.
const NEXT_TRY: Duration = Duration::from_secs(1);

/// What requests see.
pub struct Snapshot {
    /// Of which configuration.
    pub generation: u64,
    /// Finds the rule.
    pub router: Router<Arc<Entry>>,
    /// Ghost's own answers.
    pub answers: Arc<Answers>,
}

/// Ghost in one VCL.
pub struct Instance {
    vcl: Vcl,
    store: OnceLock<Arc<Store>>,
    snapshot: ArcSwapOption<Snapshot>,
    /// None while the VCL is cold.
    live: Mutex<Option<(Live, Retirement)>>,
    /// Held by who catches up; when that last failed.
    behind: Mutex<Option<Instant>>,
}

impl Instance {
    /// Ghost in a VCL that is being loaded.
    pub fn new(vcl: Vcl) -> Arc<Self> {
        Arc::new(Self {
            vcl,
            store: OnceLock::new(),
            snapshot: ArcSwapOption::empty(),
            live: Mutex::new(None),
            behind: Mutex::new(None),
        })
    }

    /// Use the configuration at `path`, which must be readable now.
    pub fn init(&self, path: &Path) -> Result<(), String> {
        let store = Store::of(path);
        on_own_thread(|| store.reload(|_| Ok(())))?;
        self.store.set(store).map_err(|_| "ghost.init() was called twice".to_owned())
    }

    /// Begin to serve: the VCL became warm.
    pub fn warm(self: &Arc<Self>) -> Result<(), String> {
        let store = self.store().ok_or("vcl_init does not call ghost.init()")?;
        let answers = Answers::new(self.vcl, &Arc::downgrade(self)).map_err(refused)?;
        let live = Live::new(self.vcl, Arc::clone(store), answers);
        *lock(&self.live) = Some((live, Retirement::default()));
        on_own_thread(|| self.bring_to(&store.current()))
    }

    /// Let go of everything: the VCL became cold, or goes away.
    pub fn cool(&self) {
        self.snapshot.store(None);
        lock(&self.live).take();
    }

    /// The store of its configuration, once `init` was called.
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.store.get()
    }

    /// What to serve a request with; None while the VCL is cold. If another VCL has
    /// reloaded the configuration since, one request catches up first; those beside it are
    /// served with what there is.
    pub fn snapshot(&self) -> Guard<Option<Arc<Snapshot>>> {
        let snapshot = self.snapshot.load();
        let (Some(served), Some(store)) = (snapshot.as_ref(), self.store()) else {
            return snapshot;
        };
        if served.generation >= store.generation() {
            return snapshot;
        }
        self.catch_up(store);
        self.snapshot.load()
    }

    /// Serve what another VCL has loaded, unless somebody is about it or has just failed.
    #[cold]
    fn catch_up(&self, store: &Store) {
        let mut failed = match self.behind.try_lock() {
            Ok(failed) => failed,
            Err(TryLockError::Poisoned(failed)) => failed.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if failed.is_none_or(|moment| moment.elapsed() > NEXT_TRY) {
            let caught_up = on_own_thread(|| self.bring_to(&store.current()));
            *failed = caught_up.err().map(|_| Instant::now());
        }
    }

    /// Read the configuration again and serve it.
    pub fn reload(&self) -> Result<Arc<Loaded>, String> {
        let store = self.store().ok_or("nothing is loaded")?;
        on_own_thread(|| store.reload(|loaded| self.bring_to(loaded)))
    }

    fn bring_to(&self, loaded: &Arc<Loaded>) -> Result<(), String> {
        let mut live = lock(&self.live);
        let Some((live, retirement)) = live.as_mut() else { return Ok(()) };
        let mut retired = Retired::default();
        if loaded.generation > live.applied.generation {
            retired = live.apply(loaded).map_err(refused)?;
        }
        let before = self.snapshot.swap(Some(Arc::new(Snapshot {
            generation: live.applied.generation,
            router: live.router.clone(),
            answers: Arc::clone(&live.answers),
        })));
        if !retired.is_empty() {
            retirement.of((before, retired));
        }
        Ok(())
    }
}

fn refused(refused: Refused) -> String {
    refused.0.to_owned()
}

fn on_own_thread<T: Send>(work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("ghost-reload".into()).stack_size(STACK_SIZE);
        let running =
            builder.spawn_scoped(scope, work).map_err(|error| format!("no thread: {error}"))?;
        running
            .join()
            .unwrap_or_else(|payload| Err(format!("panic: {}", panic_message(payload.as_ref()))))
    })
}
