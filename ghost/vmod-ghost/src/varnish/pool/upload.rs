//! The body of a request on its way to an endpoint, within the limit of an attempt.
//!
//! varnishd reads a piece from the client and writes it to the endpoint, and waits for
//! either as long as it takes. ghost puts a step of its own before the body of the request,
//! which varnishd calls for each piece in the thread of the fetch. The step waits for both
//! sides until the limit at most, and lets varnishd read no more than the endpoint's socket
//! has room for: the write that follows does not wait.
//!
//! A body that varnishd has cached does not come by here, but is small.

use std::cell::Cell;
use std::ffi::{c_void, CStr};
use std::mem;
use std::ptr::NonNull;

use super::socket::Socket;
use super::timeouts::{Limit, Waits};
use crate::varnish::fetch::Fetch;
use crate::varnish::processor::{Processor, Step};
use crate::varnish::sys;
use crate::varnish::workspace;

/// What the step and varnishd's entry for it need of the client's workspace, which aligns
/// each. varnishd's child would go down over a request without room for the entry.
const BYTES: usize = mem::size_of::<Limited>() + mem::size_of::<sys::vfp_entry>() + 64;

static LIMITED: Processor<Limited> = Processor::new(c"ghost_upload");

/// The step. It lies on the workspace of the client's request, as its entry does.
struct Limited {
    bo: *mut sys::busyobj,
    waits: Waits,
    timed_out: Cell<bool>,
}

/// The body of the request of an attempt, if it comes from the client meanwhile.
pub(super) struct Upload(Option<Pushed>);

struct Pushed {
    request: NonNull<sys::req>,
    step: NonNull<Limited>,
    entry: *mut sys::vfp_entry,
    workspace: usize,
}

impl Upload {
    /// Limit it for an attempt. Without room for that, a request that may take too long is
    /// better than none.
    pub(super) fn begin(fetch: &Fetch<'_>, limit: Limit) -> Self {
        let (bo, waits) = (fetch.bo(), Waits::new(fetch, limit));
        if waits.are_endless() {
            return Self(None);
        }
        // SAFETY: while the fetch has a request, its client waits for the fetch, which works
        // with the body and the workspace of the request as varnishd itself does.
        Self(unsafe { NonNull::new((*bo).req).and_then(|request| push(request, bo, waits)) })
    }

    /// Lift the limits; whether they have ended the attempt.
    pub(super) fn end(self) -> bool {
        let Some(pushed) = self.0 else { return false };
        // SAFETY: as for `begin`: the attempt is over, but not the fetch.
        unsafe {
            let timed_out = pushed.step.as_ref().timed_out.get();
            pushed.remove();
            timed_out
        }
    }
}

/// # Safety
/// `request` is that of the fetch `bo`, which is this thread's.
unsafe fn push(request: NonNull<sys::req>, bo: *mut sys::busyobj, waits: Waits) -> Option<Pushed> {
    // SAFETY: as promised by the caller.
    unsafe {
        let req = request.as_ptr();
        let ws = workspace_of_request(req);
        let free = (*ws).e.offset_from((*ws).f);
        if (*(*req).req_body_status).avail != 1 || free < isize::try_from(BYTES).ok()? {
            return None;
        }
        let workspace = sys::WS_Snapshot(ws);
        let step = workspace::room_for::<Limited>(ws)?.cast::<Limited>();
        step.write(Limited { bo, waits, timed_out: Cell::new(false) });
        LIMITED.push((*req).vfc, step)?;
        let entry = (*(*req).vfc).vfp.vtqh_first;
        Some(Pushed { request, step, entry, workspace })
    }
}

/// # Safety
/// `request` is valid.
unsafe fn workspace_of_request(request: *mut sys::req) -> *mut sys::ws {
    // SAFETY: as promised by the caller; this makes no reference.
    unsafe { (&raw mut (*request).ws).cast() }
}

impl Pushed {
    /// Leave the request as it was, for another attempt or for varnishd to read its body.
    ///
    /// # Safety
    /// The fetch goes on.
    unsafe fn remove(self) {
        // SAFETY: as promised by the caller. varnishd empties the list once it has read the
        // body; before, the entry is the first of at least two.
        unsafe {
            let req = self.request.as_ptr();
            let steps = (*req).vfc;
            if (*steps).vfp.vtqh_first != self.entry {
                return;
            }
            let next = (*self.entry).list.vtqe_next;
            (*steps).vfp.vtqh_first = next;
            (*steps).vfp_nxt = next;
            let first = &raw mut (*steps).vfp.vtqh_first;
            if next.is_null() {
                (*steps).vfp.vtqh_last = first;
            } else {
                (*next).list.vtqe_prev = first;
            }
            sys::WS_Reset(workspace_of_request(req), self.workspace);
        }
    }
}

impl Step for Limited {
    const ENTRY: &'static str = "upload";
    const ERROR: &'static CStr = c"ghost: the request took too long";

    unsafe fn pull(
        &self,
        steps: *mut sys::vfp_ctx,
        piece: *mut c_void,
        length: *mut isize,
    ) -> Option<sys::vfp_status> {
        // SAFETY: varnishd calls in an attempt of the fetch, whose connection is open, and
        // wants a byte at least.
        unsafe {
            let connection = NonNull::new((*self.bo).htc)?.as_ptr();
            let endpoint = Socket(*(*connection).rfd);
            if self.is_in_time(endpoint) {
                *length = (*length).min(endpoint.room());
                let pulled = sys::VFP_Suck(steps, piece, length);
                self.waits.shorten(connection);
                return Some(pulled);
            }
            self.timed_out.set(true);
            // A body that fails would have varnishd reset a stream of HTTP/2, as one that the
            // client may repeat. Instead the write of a byte fails, which goes nowhere.
            endpoint.shut_down();
            piece.cast::<u8>().write(0);
            *length = 1;
            Some(sys::VFP_OK)
        }
    }
}

impl Limited {
    /// Wait for the endpoint to have room for a piece, and for the client to send one.
    ///
    /// # Safety
    /// varnishd reads the body of the request.
    unsafe fn is_in_time(&self, endpoint: Socket) -> bool {
        // SAFETY: as promised by the caller.
        let client = unsafe { (*self.bo).req.as_ref().and_then(silent_client) };
        self.waits.for_endpoint().is_none_or(|end| endpoint.is_writable_by(end))
            && client
                .zip(self.waits.for_client())
                .is_none_or(|(client, end)| client.is_readable_by(end))
            && self.waits.leave_time()
    }
}

/// The client's connection, if it may be silent. One of many streams has no connection of
/// its own: varnishd gives up on it after `timeout_idle`.
fn silent_client(request: &sys::req) -> Option<Socket> {
    // SAFETY: a request has an htc; its rfd is null, or points to the session's socket.
    unsafe {
        let connection = request.htc.as_ref()?;
        connection.rfd.as_ref().filter(|_| connection.pipeline_b.is_null()).map(|&fd| Socket(fd))
    }
}
