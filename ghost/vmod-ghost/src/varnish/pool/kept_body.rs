//! The body of a request that varnishd keeps in memory, so that a fetch can send it more than
//! once.
//!
//! varnishd reads it before the fetch, on the thread of the client, and waits for each piece as
//! long as `timeout_idle`: a client that sends a byte at a time could hold the thread for days.
//! A step of ghost's waits for a piece as long, and gives up at a moment.

use std::cell::Cell;
use std::ffi::{c_void, CStr};
use std::time::{Duration, Instant};

use super::request_step::{silent_client, without_waiting, RequestStep};
use crate::varnish::client::Client;
use crate::varnish::parameters::usual_timeouts;
use crate::varnish::processor::{Processor, Step};
use crate::varnish::sys;

static LIMITED: Processor<Limited> = Processor::new(c"ghost_kept_body");

/// A client may take this many times `timeout_idle` for a body, if nothing else limits it.
const PIECES: u32 = 6;

struct Limited {
    req: *mut sys::req,
    until: Instant,
    timed_out: Cell<bool>,
}

/// How long a client may take for a body, if nothing else limits it.
pub fn usual_time() -> Duration {
    let idle = Duration::try_from_secs_f64(usual_timeouts().idle).unwrap_or_default();
    idle.saturating_mul(PIECES)
}

/// Read the body of a request of `most` bytes at most, if `vcl_recv` is running. False if it
/// does not arrive by the moment: varnishd closes the connection after the response. A request
/// without room for the step is sent once.
pub fn keep(client: &Client<'_>, most: i64, until: Instant) -> bool {
    if client.ctx.method != sys::VCL_MET_RECV {
        return true;
    }
    let own_connection = client.req().is_some_and(|req| req.protocol().starts_with(b"HTTP/1"));
    // SAFETY: the request is this thread's, and called where varnishd allows it. No fetch has
    // begun, so that no other thread works with its body or its workspace.
    unsafe {
        let request = client.request();
        let req = request.as_ptr();
        let limited = Limited { req, until, timed_out: Cell::new(false) };
        let Some(step) = RequestStep::push(&LIMITED, request, limited) else { return true };
        sys::VRT_CacheReqBody(client.ctx, most);
        let timed_out = step.step().timed_out.get();
        step.remove();
        // varnishd itself has given up on the client, and would close the connection without
        // a response. It has reset a stream of HTTP/2 already.
        let gave_up = own_connection && (*req).req_body_status == sys::BS_ERROR.as_ptr();
        if timed_out || gave_up {
            // No endpoint gets the part that has arrived.
            (*req).req_body_status = sys::BS_TAKEN.as_ptr();
            (*req).doclose = sys::SC_RX_TIMEOUT.as_ptr();
        }
        !timed_out && !gave_up
    }
}

impl Step for Limited {
    const ENTRY: &'static str = "kept-body";
    const ERROR: &'static CStr = c"ghost: the body of the request could not be read";

    unsafe fn pull(
        &self,
        rest: *mut sys::vfp_ctx,
        room: *mut c_void,
        size: *mut isize,
    ) -> Option<sys::vfp_status> {
        // SAFETY: varnishd calls while it reads the body, on the thread of the request.
        unsafe {
            let client = silent_client(&*self.req);
            let idle = Duration::try_from_secs_f64(usual_timeouts().idle).unwrap_or_default();
            let end = self.until.min(Instant::now() + idle);
            let readable = client.is_none_or(|client| client.is_readable_by(end));
            if readable && Instant::now() < self.until {
                *size = (*size).min(without_waiting(&*self.req));
                return Some(sys::VFP_Suck(rest, room, size));
            }
            self.timed_out.set(true);
            // A body that fails would have varnishd reset a stream of HTTP/2, as one that the
            // client may repeat.
            *size = 0;
            Some(sys::VFP_END)
        }
    }
}
