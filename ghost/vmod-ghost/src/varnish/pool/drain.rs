//! Reading a discarded response to its end, so that its connection can be used again.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use crate::varnish::fetch::Fetch;
use crate::varnish::sys;

/// A larger body is not worth its connection.
const MOST: usize = 64 << 10;

/// Nor is a slow one: all of it has to come in this time.
const LONGEST: Duration = Duration::from_millis(100);

/// Read the body of the response that has begun to its end, until this moment at most, or
/// mark its connection to be closed.
pub(super) fn or_close(fetch: &mut Fetch<'_>, until: Option<Instant>) {
    let end = until.into_iter().fold(Instant::now() + LONGEST, Instant::min);
    let (htc, vfc) = (fetch.raw().htc, fetch.raw().vfc);
    if htc.is_null() {
        return;
    }
    // SAFETY: the connection of this fetch, whose body nothing else reads. varnishd changes
    // it while it reads, so no reference to it exists meanwhile.
    unsafe {
        // More of a body without a known end may come at any time.
        let endless = (*htc).body_status == sys::BS_ERROR.as_ptr();
        let read = || sys::VFP_Open(fetch.ctx, vfc) == 0 && reaches_end(*(*htc).rfd, vfc, end);
        if endless || (has_body(htc) && !read()) {
            (*htc).doclose = sys::SC_RX_BODY.as_ptr();
        }
    }
}

/// # Safety
/// The steps of a body on this socket are open.
unsafe fn reaches_end(socket: c_int, vfc: *mut sys::vfp_ctx, end: Instant) -> bool {
    let mut buffer = [0_u8; 4096];
    let mut read = 0;
    // SAFETY: as promised by the caller; the buffer has the length that varnishd gets.
    unsafe {
        while read <= MOST {
            let Some(left) = end.checked_duration_since(Instant::now()) else { return false };
            sys::VTCP_set_read_timeout(socket, left.as_secs_f64().max(0.001));
            let mut length = isize::try_from(buffer.len()).unwrap_or(0);
            let status = sys::VFP_Suck(vfc, buffer.as_mut_ptr().cast(), &raw mut length);
            match status {
                sys::VFP_OK => read += usize::try_from(length).unwrap_or(MOST).max(1),
                status => return status == sys::VFP_END,
            }
        }
    }
    false
}

/// Whether a body follows on this connection.
///
/// # Safety
/// `htc` is valid.
pub(in crate::varnish) unsafe fn has_body(htc: *const sys::http_conn) -> bool {
    // SAFETY: as promised by the caller; the rest are constants of varnishd's.
    unsafe {
        let without = [sys::BS_NONE.as_ptr(), sys::BS_ERROR.as_ptr()];
        !without.contains(&(*htc).body_status)
    }
}
