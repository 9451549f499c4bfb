//! A request that varnishd has as a whole: without a body, or with one that it keeps.
//!
//! varnishd reads a kept body from an object, once it is connected and before it writes anything.
//! ghost puts an object of its own in the place of it, also where there is none, and passes on
//! what the object of varnishd's holds.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use super::super::socket::Socket;
use super::deadline::Deadline;
use crate::varnish::cache::storage::{Methods, Storage, STEVEDORE_MAGIC};
use crate::varnish::fence::fence;
use crate::varnish::fetch::Fetch;
use crate::varnish::sys;

/// Of the objects in here. varnishd only reads from them, and asks how long they are.
static METHODS: Methods = Methods::reading(read, attribute);
static STORAGE: Storage = Storage::with(STEVEDORE_MAGIC, &raw const METHODS);

/// The length of a body that isn't there.
static NOTHING: [u8; 8] = [0; 8];

/// The object, and what it leads to.
#[repr(C)]
struct Whole<'d> {
    object: sys::objcore,
    bo: *mut sys::busyobj,
    body: *mut sys::objcore,
    deadline: &'d Deadline,
}

/// Send a request with a deadline for its connection.
pub(super) fn watched(fetch: &Fetch<'_>, deadline: &Deadline, send: impl FnOnce() -> bool) -> bool {
    let (bo, body) = (fetch.bo(), fetch.raw().bereq_body);
    let mut object = sys::objcore { magic: sys::OBJCORE_MAGIC, ..Default::default() };
    object.stobj[0].stevedore = (&raw const STORAGE).cast();
    let mut whole = Whole { object, bo, body, deadline };
    // SAFETY: the busyobj is this thread's, and without a request, so that varnishd takes the
    // body from there. It refers to it during the call only.
    unsafe {
        (*bo).bereq_body = (&raw mut whole).cast();
        let answered = send();
        (*bo).bereq_body = body;
        answered
    }
}

unsafe extern "C" fn read(
    worker: *mut sys::worker,
    object: *mut sys::objcore,
    receiver: *mut c_void,
    each: sys::objiterate_f,
    last: c_int,
) -> c_int {
    // SAFETY: varnishd calls with the object that `watched` made, in the attempt, whose
    // connection is open. The object of varnishd's is that of the request.
    unsafe {
        let whole = object.cast::<Whole<'_>>().cast_const();
        let (connection, body) = ((*(*whole).bo).htc, (*whole).body);
        let socket = Socket(*(*connection).rfd);
        let begun = fence(None, "send", false, || {
            (*whole).deadline.watch(socket);
            (*whole).deadline.waits().shorten(connection);
            true
        });
        if !begun {
            socket.shut_down();
        }
        if body.is_null() {
            0
        } else {
            sys::ObjIterate(worker, body, receiver, each, last)
        }
    }
}

unsafe extern "C" fn attribute(
    worker: *mut sys::worker,
    object: *mut sys::objcore,
    which: c_uint,
    length: *mut isize,
) -> *const c_void {
    // SAFETY: as for `read`; varnishd passes a place for the length. Nothing in here panics.
    unsafe {
        let body = (*object.cast::<Whole<'_>>()).body;
        if !body.is_null() {
            return sys::ObjGetAttr(worker, body, which, length);
        }
        *length = 8;
        ptr::from_ref(&NOTHING).cast()
    }
}
