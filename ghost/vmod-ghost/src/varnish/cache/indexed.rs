//! The index of the objects in varnishd's cache.
//!
//! varnishd publishes an event when an object becomes visible, and one before it gives up its
//! last reference to an object that it keeps. What ghost's safe code says of an object goes into
//! the index in between, with the object's address as the handle.
//!
//! *A handle in the index is valid while the index is locked*: the second event removes it, and
//! waits for that lock. Nothing but these events puts a handle in. The index is that of this copy
//! of the library, for as long as varnishd runs: the library stays loaded (`build.rs`).

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use ghost_core::cache::index::{
    Entry, HeldShape, Index, Invalidation, Mode, Refused, Scope, Target, Usage,
};
use ghost_core::cache::key::QueryPolicy;

use super::super::fence::fence;
use super::super::fetch::Fetch;
use super::super::sys;
use super::object::Object;
use crate::cache;

/// The index takes at most this part of what the stores have together.
const SHARE: u64 = 2;
/// At least so many bytes; and so many where the size of no store is known.
const LEAST: u64 = 16 << 20;
const WITHOUT_LIMIT: u64 = 1 << 30;

static INDEX: OnceLock<Index> = OnceLock::new();
/// A removal has panicked: a handle may be left that leads nowhere. The index isn't used any more.
static BROKEN: AtomicBool = AtomicBool::new(false);

fn index() -> Option<&'static Index> {
    INDEX.get().filter(|_| !BROKEN.load(Ordering::Acquire))
}

/// Whether there is an index to invalidate by.
pub fn has_index() -> bool {
    index().is_some()
}

/// What becomes of an object that arrives.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    /// It is kept.
    Kept,
    /// It is what an invalidation concerns that came after its fetch began.
    Invalidated(Mode),
    /// It is removed.
    Removed,
}

/// An object that becomes visible.
pub struct Arrival<'a>(Object<'a>);

impl<'a> Arrival<'a> {
    /// The object.
    pub fn object(&self) -> &Object<'a> {
        &self.0
    }

    /// Put it into the index.
    pub fn index(&self, entry: &Entry<'_>) -> Result<Option<Mode>, Refused> {
        index().map_or(Err(Refused::Full), |index| index.insert(self.0.address(), entry))
    }
}

impl Fetch<'_> {
    /// Whether the index would refuse the object that the fetch makes.
    pub fn check_index(&self, entry: &Entry<'_>) -> Result<(), Refused> {
        let handle = self.raw().fetch_objcore.addr();
        index().map_or(Err(Refused::Full), |index| index.check(handle, entry))
    }

    /// Read the objects that a target names and that requests may find, while `goes_on`. `read` must
    /// be short: new and removed objects wait for it. Out: how many objects it counted.
    pub fn look(
        &self,
        target: &Target<'_>,
        scope: &Scope<'_>,
        read: &mut impl FnMut(&Object<'_>) -> bool,
        goes_on: impl Fn(u64) -> bool,
    ) -> u64 {
        let Some(index) = index() else { return 0 };
        let worker = self.raw().wrk;
        let mut visitor = |handle: usize| {
            // SAFETY: the handle is an object's, which exists as long as the index is locked, and
            // keeps its headers until it is freed. The worker is this thread's. To read an object
            // takes no lock.
            let object = unsafe { Object::new(ptr::with_exposed_provenance_mut(handle), worker) };
            object.is_some_and(|object| !object.is_dying() && read(&object))
        };
        index.look(target, scope, &mut visitor, goes_on)
    }
}

/// Carry out an invalidation. Out: how many objects it concerns.
pub fn invalidate(what: &Invalidation<'_>) -> u64 {
    let Some(index) = index() else { return 0 };
    index.invalidate(what, &mut |handle: usize| {
        // SAFETY: the handle is an object's, which exists as long as the index is locked. What
        // makes it stale or removes it needs no worker, and takes no lock that is held while
        // varnishd publishes an event.
        let object =
            unsafe { Object::new(ptr::with_exposed_provenance_mut(handle), ptr::null_mut()) };
        object.is_some_and(|object| object.invalidate(what.mode))
    })
}

/// Have invalidations look for the response of a fetch, whose policy ignores parameters.
pub fn hold_shape(
    route: &str,
    host: &[u8],
    query: &QueryPolicy,
) -> Result<Option<HeldShape>, Refused> {
    index().map_or(Err(Refused::Full), |index| index.hold_shape(route, host, query))
}

/// What the objects of a URI may be known as.
pub fn forms(host: &[u8], target: &[u8], scope: &Scope<'_>) -> Vec<Vec<u8>> {
    index().map_or_else(Vec::new, |index| index.forms(host, target, scope))
}

/// What the index holds, and the most bytes that it may.
pub fn index_usage() -> (Usage, usize) {
    index().map_or((Usage::default(), 0), |index| (index.usage(), limit()))
}

/// Have varnishd publish what becomes of objects. Called with each VCL that is loaded.
pub(in super::super) fn watch_objects() {
    INDEX.get_or_init(|| {
        // SAFETY: the function stays where it is as long as varnishd runs.
        unsafe {
            let events = sys::OEV_INSERT | sys::OEV_EXPIRE;
            sys::ObjSubscribeEvents(Some(on_event), ptr::null_mut(), events);
        }
        Index::new(limit())
    });
}

fn limit() -> usize {
    let share = match cache::size_of_stores() {
        0 => WITHOUT_LIMIT,
        size => (size / SHARE).max(LEAST),
    };
    usize::try_from(share).unwrap_or(usize::MAX)
}

unsafe extern "C" fn on_event(
    worker: *mut sys::worker,
    _: *mut c_void,
    object: *mut sys::objcore,
    event: u32,
) {
    if event == sys::OEV_EXPIRE {
        let removed = fence(None, "expired", false, || {
            index().map(|index| index.remove(object.addr()));
            true
        });
        if !removed {
            BROKEN.store(true, Ordering::Release);
        }
        return;
    }
    // SAFETY: varnishd passes an object that it refers to until the call returns.
    let Some(found) = (unsafe { Object::new(object, worker) }) else { return };
    if found.is_marker() {
        return;
    }
    let arrival = Arrival(found);
    // An object that may not be in the index must not stay: an invalidation would miss it.
    match fence(None, "arrived", Fate::Removed, || cache::arrive(&arrival)) {
        Fate::Kept => {}
        Fate::Invalidated(mode) => drop(arrival.0.invalidate(mode)),
        Fate::Removed => drop(arrival.0.invalidate(Mode::Hard)),
    }
}
