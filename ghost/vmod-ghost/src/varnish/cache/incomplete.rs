//! Responses whose fetch fails after varnishd has begun to deliver them.
//!
//! A delivery that waits for a fetch learns of its failure. One that begins after the failure
//! doesn't: no fetch is under way any more, and varnishd takes what there is for the whole
//! object. Over HTTP/2 varnishd doesn't tell its client in either case. So ghost takes the place
//! of the one function by which varnishd reads an object: a failed object can't be read to its
//! end. `docs/contributing/decisions` says why no delivery processor does this.
//!
//! The same table of functions lets ghost look on at evictions ([`evicted`]).

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{fence, AtomicPtr, Ordering};
use std::sync::OnceLock;

use super::super::sys;
use super::evicted;
use super::storage::{Methods, Storage};

extern "C" {
    // varnishd exports both, and installs no header with them.
    /// What the storages "malloc" and "file" do.
    static SML_methods: Methods;
    /// Goes on to the next storage; 0 after the last.
    fn STV__iter(storage: *mut *mut Storage) -> c_int;
}

/// `SML_methods`, with [`read`] and [`slim`].
static OURS: OnceLock<Methods> = OnceLock::new();

/// Have no failed object delivered as if it were complete. The library stays loaded from then
/// on (`build.rs`).
pub(in super::super) fn fail_incomplete() {
    // SAFETY: storages live as long as varnishd. The pointer is replaced only where it leads to
    // varnishd's own methods, so that what precedes it is as declared here; another copy of ghost
    // may have done the same. What both tables do to an object is the same: it doesn't
    // matter which of them a thread finds.
    unsafe {
        let theirs = (&raw const SML_methods).cast_mut();
        let ours = OURS.get_or_init(|| (*theirs).with(read, slim));
        let ours = ptr::from_ref(ours).cast_mut();
        let mut storage = ptr::null_mut();
        while STV__iter(&raw mut storage) != 0 {
            let methods = AtomicPtr::from_ptr(&raw mut (*storage).methods);
            let _ = methods.compare_exchange(theirs, ours, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// Nothing in it can panic.
unsafe extern "C" fn read(
    worker: *mut sys::worker,
    object: *mut sys::objcore,
    receiver: *mut c_void,
    each: sys::objiterate_f,
    last: c_int,
) -> c_int {
    // SAFETY: varnishd calls with what its own function expects, and the caller refers to the
    // object. A fetch that fails marks the object before it ends, and varnishd's function
    // returns after that, or has found that no fetch is under way.
    unsafe {
        let result = (SML_methods.read)(worker, object, receiver, each, last);
        fence(Ordering::Acquire);
        if u32::from((&raw const (*object).flags).read_volatile()) & sys::OC_F_FAILED == 0 {
            return result;
        }
        let request = sys::THR_GetRequest();
        if !request.is_null() && (*request).vdc.cast::<c_void>() == receiver {
            // HTTP/2 ignores the result, and resets the stream if a processor has failed.
            (*(*request).vdc).retval = -1;
            if (*request).esi_level > 0 {
                // varnishd would go on with the page behind a fragment that breaks off. The thread
                // delivers that page, too.
                (*(*(*(*request).top).topreq).vdc).retval = -1;
            }
        }
        -1
    }
}

/// Nothing in it can panic.
unsafe extern "C" fn slim(worker: *mut sys::worker, object: *mut sys::objcore) {
    // SAFETY: varnishd calls with what its own function expects, and the caller refers to the
    // object.
    unsafe {
        evicted::look(object);
        if let Some(slim) = SML_methods.slim {
            slim(worker, object);
        }
    }
}
