//! A call in a client task: varnishd handles a request.

use std::ffi::CString;
use std::net::IpAddr;
use std::ptr::{self, NonNull};

use ghost_core::shares::Place;

use super::director::held::{Backend, Returned};
use super::http::Http;
use super::parameters;
use super::session::{self, SocketName};
use super::sys;
use super::task::{self, Memory, Task};
use super::workspace;

/// Seconds that varnishd spends on sending an error to a client that does not read it.
const LAST_WORDS: f64 = 1.0;

/// For how many seconds varnishd waits for a client that does not read a response.
#[derive(Clone, Copy, Debug)]
pub struct SendTimeouts {
    idle: f64,
    total: f64,
}

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

    /// Have this director serve the request, as `set req.backend_hint` does.
    pub fn set_backend_hint(&self, director: Returned<'_>) {
        // SAFETY: the context is that of a client's request, and the director one of its VCL; the
        // memory of the task keeps it until varnishd refers to it.
        unsafe { sys::VRT_l_req_backend_hint(self.ctx, director.into_raw(self.ctx.vcl)) };
    }

    /// The socket of the port that the request came in on.
    pub fn socket(&self) -> SocketName<'_> {
        session::socket(self.ctx)
    }

    /// The address of the client's connection, which VCL can't change.
    pub fn address(&self) -> Option<IpAddr> {
        session::client_address(self.ctx)
    }

    /// Whether varnishd has restarted the request.
    pub fn is_restarted(&self) -> bool {
        self.raw().restarts > 0
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

    /// The request, for functions of varnishd's. Never make a `&mut` of it.
    pub(super) fn request(&self) -> NonNull<sys::req> {
        self.req
    }

    /// Where the thread is that handles the request.
    pub fn place(&self) -> Place {
        // SAFETY: a request in a call has a worker.
        unsafe { parameters::place(self.raw().wrk) }
    }

    /// Don't read the body that the client is sending: close the connection after the response.
    pub fn decline_body(&self) {
        // SAFETY: the request is this thread's.
        unsafe { decline_body(self.req.as_ptr()) };
    }

    /// Whether the client is still sending a body that varnishd has not read.
    pub fn has_unread_body(&self) -> bool {
        // SAFETY: a request has a body status.
        unsafe { (*self.raw().req_body_status).avail == 1 }
    }

    /// Whether the body of the request was read before, and not kept: a fetch would send none.
    pub fn has_lost_body(&self) -> bool {
        let status = self.raw().req_body_status;
        // SAFETY: these are constants of varnishd's, of which ghost takes the addresses.
        unsafe { [sys::BS_TAKEN.as_ptr(), sys::BS_ERROR.as_ptr()].contains(&status) }
    }

    /// Close the connection after the response, which says so over HTTP/1. What ESI includes
    /// has no connection of its own, nor has a stream of HTTP/2, for which varnishd closes none.
    pub fn close_after_response(&self) {
        let req = self.req.as_ptr();
        // SAFETY: the request is this thread's.
        unsafe {
            if self.is_top() && (*req).doclose == sys::SC_NULL.as_ptr() {
                (*req).doclose = sys::SC_RESP_CLOSE.as_ptr();
            }
        }
    }

    /// Close the connection after the response, and soon if the client does not read it.
    /// Returns for how long varnishd would have waited: VCL may restart the request.
    pub fn dismiss(&self) -> Option<SendTimeouts> {
        // The response that includes this one goes on, and the connection with it.
        if !self.is_top() {
            return None;
        }
        // SAFETY: the request is this thread's. Streams of HTTP/2 share their session, and
        // varnishd limits what it sends on one by itself.
        unsafe {
            (*self.req.as_ptr()).doclose = sys::SC_OVERLOAD.as_ptr();
            if !self.req().is_some_and(|req| req.protocol().starts_with(b"HTTP/1")) {
                return None;
            }
            let before = SendTimeouts {
                idle: sys::VRT_r_sess_idle_send_timeout(self.ctx),
                total: sys::VRT_r_sess_send_timeout(self.ctx),
            };
            self.set_send_timeouts(SendTimeouts { idle: LAST_WORDS, total: LAST_WORDS });
            Some(before)
        }
    }

    /// Wait for the client for this long.
    pub fn set_send_timeouts(&self, timeouts: SendTimeouts) {
        // SAFETY: the session is that of a client's request.
        unsafe {
            sys::VRT_l_sess_idle_send_timeout(self.ctx, timeouts.idle);
            sys::VRT_l_sess_send_timeout(self.ctx, timeouts.total);
        }
    }

    /// Whether `vcl_recv` is running. User VCL may call its functions elsewhere.
    pub fn is_receiving(&self) -> bool {
        self.ctx.method == sys::VCL_MET_RECV
    }

    /// Whether `vcl_deliver` is running. User VCL may prepare what `vcl_synth` makes likewise.
    pub fn is_delivering(&self) -> bool {
        self.ctx.method == sys::VCL_MET_DELIVER
    }

    /// Leave the subroutine for `vcl_synth`, as `return (synth(status, reason))` does.
    pub fn respond_instead(&self, status: u16, reason: &str) {
        let reason = CString::new(reason).unwrap_or_default();
        // SAFETY: VCL leaves the subroutine when a function has set what follows; varnishd
        // copies the reason.
        unsafe {
            sys::VRT_synth(self.ctx, i64::from(status), reason.as_ptr());
            // The subroutine has failed where the workspace has no room for the reason, and
            // varnishd goes down when something else is to follow.
            if sys::VRT_handled(self.ctx) == 0 {
                sys::VRT_handling(self.ctx, sys::VCL_RET_SYNTH);
            }
        }
    }

    /// Have a lookup fetch rather than wait for a fetch of the same object that is under way.
    pub fn ignore_busy(&self) {
        // SAFETY: the context is that of a client's request.
        unsafe { sys::VRT_l_req_hash_ignore_busy(self.ctx, 1) };
    }

    /// Have lookups find nothing and wait for no fetch, or no longer. Returns whether they did so
    /// before.
    pub fn miss_always(&self, always: bool) -> bool {
        let before = self.raw().hash_always_miss() != 0;
        // SAFETY: the context is that of a client's request.
        unsafe { sys::VRT_l_req_hash_always_miss(self.ctx, always.into()) };
        before
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

    /// Read what ghost remembers of the request that the client sent, where ESI includes this one.
    pub fn read_of_top<T: Task, R>(&self, read: impl FnOnce(&T) -> R) -> Option<R> {
        // SAFETY: the request that includes others waits for them, on this thread. A context
        // refers to what lives during the call; it is copied as varnishd itself copies it.
        unsafe {
            let top = self.raw().top.as_ref()?.topreq;
            let mut ctx = ptr::from_ref(self.ctx).read();
            ctx.req = top;
            let value = read(&task::recall::<T>(&ctx)?.get());
            Some(value)
        }
    }

    pub(super) fn raw(&self) -> &sys::req {
        // SAFETY: varnishd passed it, and only this thread works on it during the call. The
        // reference does not outlive the expression that it is used in.
        unsafe { self.req.as_ref() }
    }
}

/// Have varnishd not read what is left of the body of a request, as it otherwise does before
/// it responds, however slow the client is. The connection can't be used again then.
///
/// # Safety
/// `req` is valid, and no other thread works on it.
pub(super) unsafe fn decline_body(req: *mut sys::req) {
    // SAFETY: as promised by the caller; a request has a body status.
    unsafe {
        if (*(*req).req_body_status).avail == 1 {
            (*req).doclose = sys::SC_OVERLOAD.as_ptr();
        }
    }
}
