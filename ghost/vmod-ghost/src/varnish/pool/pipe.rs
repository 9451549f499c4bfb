//! Pipes: varnishd copies bytes both ways between the client and an endpoint.

use super::native::Native;
use super::Balance;
use crate::varnish::director::{kind_of, methods_of};
use crate::varnish::fence::fence;
use crate::varnish::sys::{self, Ctx};

/// A pipe that is not connected yet.
pub struct Pipe<'c> {
    ctx: &'c sys::vrt_ctx,
    /// What varnishd counted of the request before.
    received: u64,
    closed: Option<sys::stream_close_t>,
}

/// How varnishd records a pipe that no endpoint accepted.
fn not_connected() -> sys::stream_close_t {
    // SAFETY: a constant of varnishd's.
    unsafe { sys::SC_TX_ERROR.as_ptr() }
}

impl Pipe<'_> {
    /// Connect to this endpoint and copy until one side closes; false if there was no
    /// connection. A pipe is connected once at most.
    pub fn run(&mut self, native: &Native) -> bool {
        if self.closed.is_none() {
            self.closed = self.closed_by(native);
        }
        self.closed.is_some()
    }

    fn closed_by(&self, native: &Native) -> Option<sys::stream_close_t> {
        let native = native.director().raw_in(self.ctx.vcl)?;
        // SAFETY: the director is valid in this call, for it is held; varnishd pipes in this
        // call, with both req and bo, and the method is called as varnishd itself does.
        unsafe {
            let pipe = methods_of(native).http1pipe?;
            let (req, bo) = (self.ctx.req, self.ctx.bo);
            (*req).acct.req_hdrbytes = self.received;
            sys::VRT_Assign_Backend(&raw mut (*bo).director_resp, native);
            let noted = (*req).t_prev;
            let closed = pipe(self.ctx, native);
            // From 7.7 on this very value can also mean that varnishd sent a part of the
            // request. But once there is a connection it notes the time.
            let sent = (*req).t_prev > noted;
            (closed != not_connected() || sent).then_some(closed)
        }
    }
}

/// The callback `http1pipe`.
pub(super) unsafe extern "C" fn pipe<K: Balance>(
    ctx: Ctx,
    director: sys::VCL_BACKEND,
) -> sys::stream_close_t {
    // SAFETY: varnishd passes a context and a director of this kind.
    let (ctx, kind) = unsafe { (&*ctx, kind_of::<K>(director)) };
    fence(Some(ctx), "http1pipe", not_connected(), || {
        // SAFETY: a pipe has a req and a bo.
        let received = match (kind, unsafe { (ctx.req.as_ref(), ctx.bo.as_ref()) }) {
            (Some(_), (Some(req), Some(_))) => req.acct.req_hdrbytes,
            _ => return not_connected(),
        };
        let mut pipe = Pipe { ctx, received, closed: None };
        if let Some(kind) = kind {
            kind.pipe(&mut pipe);
        }
        pipe.closed.unwrap_or_else(not_connected)
    })
}
