//! A call in a fetch, or in a pipe, which has a backend request as well.

use std::ffi::CStr;
use std::ptr::NonNull;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ghost_core::shares::Place;

use super::client::{self, Client};
use super::director::held::Backend;
use super::director::Kind;
use super::http::Http;
use super::parameters;
use super::session::{self, SocketName};
use super::sys;
use super::task::{self, Memory, Task};

/// A call in a fetch or a pipe.
pub struct Fetch<'c> {
    pub(super) ctx: &'c sys::vrt_ctx,
    bo: NonNull<sys::busyobj>,
}

impl<'c> Fetch<'c> {
    /// None where varnishd does not fetch.
    pub(super) fn new(ctx: &'c sys::vrt_ctx) -> Option<Self> {
        NonNull::new(ctx.bo).map(|bo| Self { ctx, bo })
    }

    /// The request to the backend.
    pub fn bereq(&self) -> Option<Http<'_>> {
        // SAFETY: null, or set up and this thread's.
        unsafe { Http::new(self.raw().bereq) }
    }

    /// The request to the backend before `vcl_backend_fetch` changed it.
    pub fn original(&self) -> Option<Http<'_>> {
        // SAFETY: null, or set up and this thread's.
        unsafe { Http::new(self.raw().bereq0) }
    }

    /// The response of the backend.
    pub fn beresp(&self) -> Option<Http<'_>> {
        // SAFETY: null, or set up and this thread's.
        unsafe { Http::new(self.raw().beresp) }
    }

    /// The client's side, in a pipe.
    pub fn client(&self) -> Option<Client<'_>> {
        Client::new(self.ctx)
    }

    /// Where the thread is that fetches.
    pub fn place(&self) -> Place {
        // SAFETY: a fetch in a call has a worker.
        unsafe { parameters::place(self.raw().wrk) }
    }

    /// Don't read the body that the client is sending: close the connection after the response.
    pub fn decline_body(&self) {
        let Some(request) = NonNull::new(self.raw().req) else { return };
        // SAFETY: while the fetch has a request, its client waits for the fetch.
        unsafe { client::decline_body(request.as_ptr()) };
    }

    /// Whether the request announces a body that is gone: varnishd would send the length of the
    /// body without the body, and the endpoint would read the next request as that body.
    pub fn lacks_body(&self) -> bool {
        let fetch = self.raw();
        let gone = fetch.req.is_null() && fetch.bereq_body.is_null();
        gone && self.bereq().is_some_and(|bereq| bereq.announces_body())
    }

    /// The socket of the port that the request came in on.
    pub fn socket(&self) -> SocketName<'_> {
        session::socket(self.ctx)
    }

    /// The director that made the response.
    pub fn responder(&self) -> Backend<'_> {
        // SAFETY: varnishd refers to it for the fetch.
        unsafe { Backend::new(self.raw().director_resp) }
    }

    /// Whether a director of this kind made the response.
    pub fn is_served_by<K: Kind>(&self) -> bool {
        self.responder().kind::<K>().is_some()
    }

    /// Whether varnishd fetches in the background, to refresh what it goes on serving.
    pub fn is_background(&self) -> bool {
        self.raw().is_bgfetch() != 0
    }

    /// Whether the response is to replace an object, which varnishd then removes.
    pub fn replaces_object(&self) -> bool {
        self.is_background() || !self.raw().stale_oc.is_null()
    }

    /// Whether the backend answered 304, so that beresp has the headers of the stored object.
    pub fn was_not_modified(&self) -> bool {
        self.raw().was_304() != 0
    }

    /// Whether the response stays out of the cache.
    pub fn is_uncacheable(&self) -> bool {
        self.raw().uncacheable() != 0
    }

    /// Let the response into the cache, or keep it out.
    pub fn set_uncacheable(&mut self, uncacheable: bool) {
        // SAFETY: varnishd passed it, and only this thread works on it during the call; the
        // reference ends with the statement, which calls nothing of varnishd's.
        unsafe { (*self.bo()).set_uncacheable(uncacheable.into()) };
    }

    /// Keep the response out of the cache, and store nothing that says so.
    pub fn withhold(&mut self) {
        if self.raw().fetch_objcore.is_null() {
            return;
        }
        // SAFETY: the fetch has an object, whose attributes these functions set.
        unsafe {
            sys::VRT_l_beresp_ttl(self.ctx, 0.0);
            sys::VRT_l_beresp_grace(self.ctx, 0.0);
            sys::VRT_l_beresp_uncacheable(self.ctx, 1);
        }
    }

    /// The time since the fetch began, with what VCL and earlier tries have used of it.
    pub fn elapsed(&self) -> Duration {
        Duration::try_from_secs_f64(now() - self.raw().t_first).unwrap_or_default()
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

    pub(super) fn raw(&self) -> &sys::busyobj {
        // SAFETY: varnishd passed it, and only this thread works on it during the call. The
        // reference does not outlive the expression that it is used in.
        unsafe { self.bo.as_ref() }
    }

    /// Say why there is no response.
    pub(super) fn set_error(&mut self, status: u16, reason: &'static CStr) {
        let bo = self.bo();
        // SAFETY: varnishd passed it, and only this thread works on it during the call.
        unsafe {
            (*bo).err_code = status;
            (*bo).err_reason = reason.as_ptr();
        }
    }

    /// To change it, and for functions of varnishd's. Never make a `&mut` of it: varnishd has
    /// pointers of its own to all of it, and uses them in any call of ghost's.
    pub(super) fn bo(&self) -> *mut sys::busyobj {
        self.bo.as_ptr()
    }
}

/// The workspace of a fetch.
///
/// # Safety
/// `bo` is valid.
pub(super) unsafe fn workspace_of(bo: *mut sys::busyobj) -> *mut sys::ws {
    // SAFETY: as promised by the caller; this makes no reference.
    unsafe { (&raw mut (*bo).ws).cast() }
}

/// varnishd's clock.
pub(super) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
