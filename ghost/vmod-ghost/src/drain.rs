//! Reading on after the head of a response: to the end of one that nobody wants, so that
//! its connection can be used again, or for no longer than a rule allows.

use std::ffi::c_void;
use std::mem;
use std::ptr;
use std::time::{Duration, Instant};

use crate::fence::fence;
use crate::processor::Processor;
use crate::sys::{self, Ctx};

/// A larger body is not worth its connection.
const MOST: usize = 64 << 10;

/// Nor is one that is not there at once: all of it has to come in this time.
const PATIENCE: Duration = Duration::from_millis(100);

/// Read the body of the response that has begun to its end, until this moment at most, or
/// mark its connection to be closed.
///
/// # Safety
/// `ctx` is the context of a fetch whose response has begun, and whose body nobody reads.
pub unsafe fn or_close(ctx: Ctx, until: Option<Instant>) {
    let end = until.into_iter().fold(Instant::now() + PATIENCE, Instant::min);
    // SAFETY: as promised by the caller.
    unsafe {
        let bo = &*(*ctx).bo;
        let Some(htc) = bo.htc.as_mut() else { return };
        // Of a body whose end nobody can tell, more may come at any time.
        let endless = htc.body_status == sys::BS_ERROR.as_ptr();
        let read = || sys::VFP_Open(ctx, bo.vfc) == 0 && reaches_end(htc, bo.vfc, end);
        if endless || (has_body(htc) && !read()) {
            htc.doclose = sys::SC_RX_BODY.as_ptr();
        }
    }
}

/// # Safety
/// The filters of a body on this connection are open.
unsafe fn reaches_end(htc: &sys::http_conn, vfc: *mut sys::vfp_ctx, end: Instant) -> bool {
    let mut buffer = [0_u8; 4096];
    let mut read = 0;
    // SAFETY: as promised by the caller; the buffer has the length that is told.
    unsafe {
        while read <= MOST {
            let Some(left) = end.checked_duration_since(Instant::now()) else { return false };
            sys::VTCP_set_read_timeout(*htc.rfd, left.as_secs_f64().max(0.001));
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

fn has_body(htc: &sys::http_conn) -> bool {
    // SAFETY: constants of varnishd.
    let without = unsafe { [sys::BS_NONE.as_ptr(), sys::BS_ERROR.as_ptr()] };
    !without.contains(&htc.body_status)
}

/// Until when a body may take, on the workspace of its fetch.
struct Until {
    moment: Instant,
    between_bytes: f64,
    htc: *mut sys::http_conn,
}

static IN_TIME: Processor = Processor::new(c"ghost_in_time", Some(pull));

/// Have the body of the response that has begun fail at this moment.
///
/// # Safety
/// `ctx` is the context of a fetch whose response has begun.
pub unsafe fn until(ctx: Ctx, moment: Instant) {
    let size = u32::try_from(mem::size_of::<Until>()).unwrap_or(u32::MAX);
    // SAFETY: as promised by the caller; a connection lives until its response is finished,
    // the workspace longer.
    unsafe {
        let bo = &mut *(*ctx).bo;
        let Some(htc) = bo.htc.as_mut().filter(|htc| has_body(htc)) else { return };
        let kept: *mut Until = sys::WS_Alloc(bo.ws.as_mut_ptr(), size).cast();
        let entry = IN_TIME.push(bo.vfc);
        if kept.is_null() || entry.is_null() {
            // Too long a response is better than none.
            return;
        }
        kept.write(Until { moment, between_bytes: htc.between_bytes_timeout, htc });
        (*entry).priv1 = kept.cast();
    }
}

unsafe extern "C" fn pull(
    vfc: *mut sys::vfp_ctx,
    entry: *mut sys::vfp_entry,
    to: *mut c_void,
    length: *mut isize,
) -> sys::vfp_status {
    fence(ptr::null(), "in-time", None, || {
        // SAFETY: priv1 is null or what `until` put there.
        unsafe {
            let Some(kept) = (*entry).priv1.cast::<Until>().as_ref() else {
                return Some(sys::VFP_Suck(vfc, to, length));
            };
            let left = kept.moment.checked_duration_since(Instant::now())?;
            let wait = left.as_secs_f64().min(kept.between_bytes).max(0.001);
            sys::VTCP_set_read_timeout(*(*kept.htc).rfd, wait);
            Some(sys::VFP_Suck(vfc, to, length))
        }
    })
    .unwrap_or_else(|| {
        // SAFETY: the connection is open while its body is read; the format takes no argument.
        unsafe {
            if let Some(kept) = (*entry).priv1.cast::<Until>().as_ref() {
                (*kept.htc).doclose = sys::SC_RX_TIMEOUT.as_ptr();
            }
            *length = 0;
            sys::VFP_Error(vfc, c"ghost: the response took too long".as_ptr())
        }
    })
}
