//! A call in a client task: varnishd handles a request.

use std::ptr::NonNull;

use super::director::held::Backend;
use super::http::Http;
use super::session;
use super::sys;
use super::task::{self, Memory, Task};
use super::workspace;

/// A call in a client task.
pub struct Client<'c> {
    pub(super) ctx: &'c sys::vrt_ctx,
    req: NonNull<sys::req>,
}

impl<'c> Client<'c> {
    /// None where varnishd handles no request. A pipe is both this and a fetch.
    pub(super) fn new(ctx: &'c sys::vrt_ctx) -> Option<Self> {
        NonNull::new(ctx.req).map(|req| Self { ctx, req })
    }

    /// The request.
    pub fn req(&self) -> Option<Http<'_>> {
        // SAFETY: the head of a request is set up before VCL runs, and is this thread's.
        unsafe { Http::new(self.raw().http) }
    }

    /// The copy that a rollback returns to, before any restart and outside of ESI.
    pub fn original(&self) -> Option<Http<'_>> {
        let req = self.raw();
        let untouched = req.restarts == 0 && req.esi_level == 0;
        // SAFETY: as for `req`.
        untouched.then(|| unsafe { Http::new(req.http0) }).flatten()
    }

    /// The response that varnishd is about to deliver.
    pub fn resp(&self) -> Option<Http<'_>> {
        // SAFETY: null, or set up and this thread's.
        unsafe { Http::new(self.ctx.http_resp) }
    }

    /// Whether the client sent this request, rather than ESI.
    pub fn is_top(&self) -> bool {
        self.raw().esi_level == 0
    }

    /// The director in `req.backend_hint`.
    pub fn backend_hint(&self) -> Backend<'_> {
        // SAFETY: varnishd refers to it for the request.
        unsafe { Backend::new(self.raw().director_hint) }
    }

    /// The name of the socket that the request came in on.
    pub fn socket(&self) -> &str {
        session::socket(self.ctx)
    }

    /// The server name of the TLS handshake, from the TLS terminator; empty without one.
    pub fn server_name(&self) -> &[u8] {
        // SAFETY: the request and its session live as long as the call.
        unsafe { session::server_name(self.req.as_ptr()) }
    }

    /// Whether something did not fit into the workspace.
    pub fn has_overflowed(&self) -> bool {
        // SAFETY: the workspace of the task is this thread's.
        unsafe { workspace::has_overflowed(self.ctx.ws) }
    }

    /// Read the body of the request into memory, if `vcl_recv` is running, so that a fetch
    /// can send it more than once. If the body does not arrive the fetch fails.
    pub fn keep_body(&self, most: i64) {
        if self.ctx.method == sys::VCL_MET_RECV {
            // SAFETY: called where varnishd allows it.
            unsafe { sys::VRT_CacheReqBody(self.ctx, most) };
        }
    }

    /// Have a lookup fetch rather than wait for a fetch of the same object that is under way.
    pub fn ignore_busy(&self) {
        // SAFETY: the context is that of a client's request.
        unsafe { sys::VRT_l_req_hash_ignore_busy(self.ctx, 1) };
    }

    /// Whether the response comes from the cache.
    pub fn is_hit(&self) -> bool {
        self.raw().is_hit() != 0
    }

    /// Whether the response was fetched for this request alone.
    pub fn is_private(&self) -> bool {
        // SAFETY: the request refers to the object that it delivers.
        let object = unsafe { self.raw().objcore.as_ref() };
        object.is_some_and(|object| u32::from(object.flags) & sys::OC_F_PRIVATE != 0)
    }

    /// Seconds since varnishd received the request.
    pub fn seconds(&self) -> f64 {
        self.ctx.now - self.raw().t_req
    }

    /// What the task remembers, from now on if there was nothing; None when the workspace
    /// is full.
    pub fn remember<T: Task>(&self) -> Option<&Memory<T>> {
        task::remember(self.ctx)
    }

    /// What the task remembers, if anything.
    pub fn recall<T: Task>(&self) -> Option<&Memory<T>> {
        task::recall(self.ctx)
    }

    fn raw(&self) -> &sys::req {
        // SAFETY: varnishd passed it, and only this thread works on it during the call. The
        // reference does not outlive the expression that it is used in.
        unsafe { self.req.as_ref() }
    }
}
