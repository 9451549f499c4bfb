//! A response body that may not take longer than its rule allows.

use std::ffi::{c_void, CStr};
use std::time::Instant;

use super::drain::has_body;
use crate::varnish::fetch::Fetch;
use crate::varnish::processor::{Processor, Step};
use crate::varnish::sys;

/// Fails a body at a moment. It lies on the workspace of its fetch.
struct Deadline {
    moment: Instant,
    between_bytes: f64,
    htc: *mut sys::http_conn,
}

static DEADLINE: Processor<Deadline> = Processor::new(c"ghost_in_time");

/// Have the body of the response that has begun fail at this moment.
pub(super) fn set(fetch: &mut Fetch<'_>, moment: Instant) {
    let bo = fetch.bo();
    // SAFETY: null, or the connection of this fetch; it lives until its response is
    // finished, the workspace longer.
    unsafe {
        let htc = (*bo).htc;
        if htc.is_null() || !has_body(htc) {
            return;
        }
        let between_bytes = (*htc).between_bytes_timeout;
        // Without room for it, too long a response is better than none.
        let _ = DEADLINE.add(bo, Deadline { moment, between_bytes, htc });
    }
}

impl Step for Deadline {
    const ENTRY: &'static str = "in-time";
    const ERROR: &'static CStr = c"ghost: the response took too long";

    unsafe fn pull(
        &self,
        vfc: *mut sys::vfp_ctx,
        to: *mut c_void,
        length: *mut isize,
    ) -> Option<sys::vfp_status> {
        let left = self.moment.checked_duration_since(Instant::now())?;
        let wait = left.as_secs_f64().min(self.between_bytes).max(0.001);
        // SAFETY: the connection is open while its body is read; varnishd passed the rest.
        unsafe {
            sys::VTCP_set_read_timeout(*(*self.htc).rfd, wait);
            Some(sys::VFP_Suck(vfc, to, length))
        }
    }

    unsafe fn failed(&self) {
        // SAFETY: the connection is open while its body is read.
        unsafe { (*self.htc).doclose = sys::SC_RX_TIMEOUT.as_ptr() };
    }
}
