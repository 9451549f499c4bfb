//! The body of a synthetic response, and the connection that varnishd expects to read it
//! from.

use std::cell::Cell;
use std::ffi::{c_void, CStr};
use std::mem;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::varnish::fetch::{workspace_of, Fetch};
use crate::varnish::http::OutOfWorkspace;
use crate::varnish::processor::{Processor, Step};
use crate::varnish::sys;
use crate::varnish::workspace;

/// A body on its way. The connection owns it: varnishd calls `finish` however a fetch ends,
/// but not the `fini` of a processor.
struct Body {
    bytes: Arc<[u8]>,
    sent: Cell<usize>,
}

static BODY: Processor<Body> = Processor::new(c"ghost_answer");

/// A connection without a socket, on the workspace of its fetch.
pub(super) struct Connection;

impl Connection {
    /// Make it the connection of the fetch, with this body to read.
    pub(super) fn open(
        fetch: &mut Fetch<'_>,
        body: Option<Arc<[u8]>>,
    ) -> Result<(), OutOfWorkspace> {
        let bo = fetch.bo();
        // SAFETY: the workspace is this thread's; an all-zero http_conn is one without a
        // socket. A body lives until `close`, and the steps of a fetch close before.
        unsafe {
            let room = workspace::room_for::<sys::http_conn>(workspace_of(bo));
            let htc: NonNull<sys::http_conn> = room.ok_or(OutOfWorkspace)?.cast();
            htc.write(mem::zeroed());
            let htc = htc.as_ptr();
            (*htc).magic = sys::HTTP_CONN_MAGIC;
            (*htc).doclose = sys::SC_REM_CLOSE.as_ptr();
            (*htc).body_status = sys::BS_NONE.as_ptr();
            if let Some(bytes) = body {
                let length = bytes.len();
                let body = NonNull::from(Box::leak(Box::new(Body { bytes, sent: Cell::new(0) })));
                if BODY.push((*bo).vfc, body).is_none() {
                    drop(Box::from_raw(body.as_ptr()));
                    return Err(OutOfWorkspace);
                }
                (*htc).priv_ = body.as_ptr().cast();
                (*htc).body_status = sys::BS_LENGTH.as_ptr();
                (*htc).content_length = isize::try_from(length).unwrap_or(0);
            }
            (*bo).htc = htc;
        }
        Ok(())
    }

    /// Free the body.
    ///
    /// # Safety
    /// The connection of the fetch of `ctx`, if any, comes from `open`, and its body is not
    /// read any more.
    pub(super) unsafe fn close(ctx: &sys::vrt_ctx) {
        // SAFETY: as promised by the caller.
        unsafe {
            let htc = ctx.bo.as_ref().map_or(ptr::null_mut(), |bo| bo.htc);
            if htc.is_null() || (*htc).priv_.is_null() {
                return;
            }
            drop(Box::from_raw((*htc).priv_.cast::<Body>()));
            (*htc).priv_ = ptr::null_mut();
        }
    }
}

impl Step for Body {
    const ENTRY: &'static str = "pull";
    const ERROR: &'static CStr = c"ghost: no body";

    unsafe fn pull(
        &self,
        _: *mut sys::vfp_ctx,
        to: *mut c_void,
        length: *mut isize,
    ) -> Option<sys::vfp_status> {
        let rest = self.bytes.get(self.sent.get()..)?;
        // SAFETY: varnishd gives room for `length` bytes.
        let count = unsafe {
            let count = rest.len().min(usize::try_from(*length).ok()?);
            ptr::copy_nonoverlapping(rest.as_ptr(), to.cast(), count);
            *length = isize::try_from(count).ok()?;
            count
        };
        self.sent.set(self.sent.get() + count);
        Some(if count == rest.len() { sys::VFP_END } else { sys::VFP_OK })
    }
}
