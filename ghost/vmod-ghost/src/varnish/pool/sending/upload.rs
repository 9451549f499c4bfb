//! The body of a request on its way to an endpoint, within the limit of an attempt.
//!
//! varnishd reads a piece from the client and writes it to the endpoint, and waits for
//! either as long as it takes. ghost puts a step of its own before the body of the request,
//! which varnishd calls for each piece in the thread of the fetch. The step waits for both
//! sides until the limit at most, and lets varnishd read no more than the endpoint's socket
//! has room for: the write that follows seldom waits. Where an endpoint has so little room that
//! it does, the deadline ends it.

use std::cell::Cell;
use std::ffi::{c_void, CStr};
use std::ptr::NonNull;

use super::super::request_step::{silent_client, without_waiting, RequestStep};
use super::super::socket::Socket;
use super::super::timeouts::Waits;
use super::deadline::Deadline;
use crate::varnish::fetch::Fetch;
use crate::varnish::processor::{Processor, Step};
use crate::varnish::sys;

static LIMITED: Processor<Limited> = Processor::new(c"ghost_upload");

/// The step.
struct Limited {
    bo: *mut sys::busyobj,
    deadline: Deadline,
    timed_out: Cell<bool>,
}

/// The body of the request of an attempt, if it comes from the client meanwhile.
pub(super) struct Upload(Option<RequestStep<Limited>>);

impl Upload {
    /// Limit it for an attempt. Without room for that, a request that may take too long is
    /// better than none.
    pub(super) fn begin(fetch: &Fetch<'_>, waits: Waits) -> Self {
        let bo = fetch.bo();
        let step = Limited { bo, deadline: Deadline::new(waits), timed_out: Cell::new(false) };
        // SAFETY: while the fetch has a request, its client waits for the fetch, which works
        // with the body and the workspace of the request as varnishd itself does.
        Self(unsafe {
            NonNull::new((*bo).req).and_then(|request| RequestStep::push(&LIMITED, request, step))
        })
    }

    /// Lift the limits; whether they have ended the attempt.
    pub(super) fn end(self) -> bool {
        let Some(pushed) = self.0 else { return false };
        // SAFETY: as for `begin`: the attempt is over, but not the fetch.
        unsafe {
            let step = pushed.step();
            let timed_out = step.deadline.end() || step.timed_out.get();
            pushed.remove();
            timed_out
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
                let received = (*self.bo).req.as_ref().map_or(isize::MAX, without_waiting);
                *length = (*length).min(endpoint.room()).min(received);
                let pulled = sys::VFP_Suck(steps, piece, length);
                self.deadline.waits().shorten(connection);
                self.deadline.watch_on(endpoint);
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
        let waits = self.deadline.waits();
        waits.for_endpoint().is_none_or(|end| endpoint.is_writable_by(end))
            && client.zip(waits.for_client()).is_none_or(|(client, end)| client.is_readable_by(end))
            && waits.leave_time()
    }
}
