//! What came of a lookup, on the client's side.

use ghost_core::cache::Timestamp;

use super::super::client::Client;
use super::super::sys;
use super::object::{timestamp, Object};

impl Client<'_> {
    /// The present.
    pub fn now(&self) -> Timestamp {
        timestamp(self.ctx.now)
    }

    /// The object that varnishd is about to deliver.
    pub fn object(&self) -> Option<Object<'_>> {
        let req = self.raw();
        // SAFETY: the request refers to what it delivers.
        unsafe { Object::new(req.objcore, req.wrk) }
    }

    /// The stale object that a miss is about to replace.
    pub fn stale_object(&self) -> Option<Object<'_>> {
        let req = self.raw();
        // SAFETY: the request refers to it until the fetch has begun.
        unsafe { Object::new(req.stale_oc, req.wrk) }
    }

    /// Whether the lookup found that a response for this key was not stored of late.
    pub fn is_hit_for_miss(&self) -> bool {
        self.raw().is_hitmiss() != 0
    }

    /// Fetch for this request alone, as `return (pass)` does. For `vcl_miss`.
    pub fn pass(&self) {
        // SAFETY: VCL leaves the subroutine when a function has set what follows.
        unsafe { sys::VRT_handling(self.ctx, sys::VCL_RET_PASS) };
    }

    /// Whether the request is in `vcl_synth` because its fetch failed, not because VCL said so.
    pub fn has_failed_fetch(&self) -> bool {
        let req = self.raw();
        req.err_code == 503 && req.err_reason.is_null()
    }

    /// Write a line to the request's log.
    pub fn log(&self, text: &[u8]) {
        // SAFETY: a task has a log; varnishd copies the text.
        unsafe { write(self.ctx, text) };
    }
}

/// # Safety
/// A task of this thread's has the context.
pub(super) unsafe fn write(ctx: &sys::vrt_ctx, text: &[u8]) {
    let range = text.as_ptr_range();
    // SAFETY: as promised by the caller; varnishd copies the text.
    unsafe {
        let text = sys::txt { b: range.start.cast(), e: range.end.cast() };
        sys::VSLbt(ctx.vsl, sys::SLT_VCL_Log, text);
    }
}
