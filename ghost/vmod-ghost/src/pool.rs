//! The director of a pool: an even choice of endpoints, time-outs, and other endpoints
//! within the same fetch ([`course`]).
//!
//! It wraps Varnish's own backends by calling their methods. Another kind of endpoint belongs
//! beside [`Native`].

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::course;
use crate::director::{destroy, kind_of, methods_of, Director, Kind, Methods, Refused, Vcl};
use crate::fence::fence;
use crate::group::{self, Group};
use crate::http::Http;
use crate::native::Native;
use crate::order::TryOrder;
use crate::sys::{self, Ctx};
use crate::task::Task;
use crate::tasks::FetchTask;

/// Header lines that varnishd may add to a request when it sends it: Transfer-Encoding, and
/// Host where an HTTP/1.0 client sent none.
pub const LINES_OF_VARNISHD: u16 = 2;
/// What varnishd may take of the workspace until the request is sent, with room to spare.
const BYTES_OF_VARNISHD: u32 = 2 << 10;

/// The endpoints of a pool. A change replaces the whole list; fetches under way keep
/// theirs.
pub type Endpoints = Arc<[Arc<Native>]>;

/// A pool in a VCL.
pub struct Pool {
    director: Director,
    members: Arc<Members>,
}

/// What the director keeps.
pub struct Members {
    endpoints: ArcSwap<Endpoints>,
}

impl Pool {
    /// Add a pool to a VCL.
    pub fn new(vcl: Vcl, name: &str, endpoints: Endpoints) -> Result<Self, Refused> {
        let members = Arc::new(Members { endpoints: ArcSwap::from_pointee(endpoints) });
        let kept = Kept(Arc::clone(&members));
        let director = Director::add(vcl, &format!("pool({name})"), kept)?;
        Ok(Self { director, members })
    }

    /// Change who serves the pool; returns who did so before.
    pub fn replace(&self, endpoints: Endpoints) -> Arc<Endpoints> {
        self.members.endpoints.swap(Arc::new(endpoints))
    }

    /// Whether nobody serves it.
    pub fn is_empty(&self) -> bool {
        self.members.endpoints.load().is_empty()
    }

    /// To hand to Varnish.
    pub fn raw(&self) -> sys::VCL_BACKEND {
        self.director.raw()
    }
}

struct Kept(Arc<Members>);

impl Kind for Kept {
    const METHODS: &'static Methods = &METHODS;
}

impl Group for Kept {
    fn for_each(&self, each: &mut dyn FnMut(sys::VCL_BACKEND)) {
        self.0.endpoints.load().iter().for_each(|native| each(native.raw()));
    }
}

static METHODS: Methods = Methods(sys::vdi_methods {
    type_: c"ghost-pool".as_ptr(),
    healthy: Some(group::healthy::<Kept>),
    gethdrs: Some(get_headers),
    getip: Some(get_ip),
    finish: Some(finish),
    http1pipe: Some(pipe),
    list: Some(group::list::<Kept>),
    destroy: Some(destroy::<Kept>),
    ..Methods::NONE
});

/// The endpoints that a director has now.
///
/// # Safety
/// `director` is null or valid.
unsafe fn endpoints_of(director: sys::VCL_BACKEND) -> Option<Endpoints> {
    // SAFETY: as promised by the caller.
    let kept = unsafe { kind_of::<Kept>(director) }?;
    Some(Endpoints::clone(&kept.0.endpoints.load()))
}

unsafe extern "C" fn get_headers(ctx: Ctx, director: sys::VCL_BACKEND) -> c_int {
    let ended = fence(ctx, "gethdrs", None, || {
        // SAFETY: Varnish calls this in a fetch task, with a director of this kind.
        unsafe {
            let endpoints = endpoints_of(director)?;
            // Before the workspace is marked, so that it survives a reset to the mark.
            let task = FetchTask::remember(ctx)?;
            if !has_room(&mut *(*ctx).bo) {
                return None;
            }
            let ended = course::run(ctx, &endpoints, task);
            #[cfg(feature = "test-panic")]
            crate::fence::trip("gethdrs-late");
            Some(ended)
        }
    });
    ended.unwrap_or_else(|| {
        // SAFETY: as above.
        unsafe { close(ctx) };
        -1
    })
}

/// Whether varnishd can add to bereq what it has to. It would leave out what does not fit,
/// also the header that says where the body ends: the body would then be read as requests.
///
/// # Safety
/// `bo` is at the start of a fetch.
unsafe fn has_room(bo: &mut sys::busyobj) -> bool {
    let workspace = bo.ws.as_mut_ptr();
    // SAFETY: as promised by the caller; what is taken is given back at once.
    let fits = unsafe {
        let start = sys::WS_Snapshot(workspace);
        let fits = sys::WS_Overflowed(workspace) == 0
            && !sys::WS_Alloc(workspace, BYTES_OF_VARNISHD).is_null()
            && Http::new(bo.bereq).is_some_and(|bereq| bereq.has_room_for(LINES_OF_VARNISHD));
        sys::WS_Reset(workspace, start);
        fits
    };
    if !fits {
        bo.err_code = 503;
        bo.err_reason = c"Too many headers".as_ptr();
    }
    fits
}

unsafe extern "C" fn finish(ctx: Ctx, _: sys::VCL_BACKEND) {
    fence(ctx, "finish", (), || {
        // SAFETY: Varnish calls this in the fetch task in which get_headers succeeded.
        unsafe {
            let Some((native, earlier)) = FetchTask::recall(ctx).and_then(FetchTask::served) else {
                return;
            };
            let bytes = &mut (*(*ctx).bo).acct;
            let total = *bytes;
            // An endpoint is charged for what itself sent and received.
            crate::attempt::subtract(bytes, &earlier);
            if let Some(native_finish) = methods_of(native.raw()).finish {
                native_finish(ctx, native.raw());
            }
            (*(*ctx).bo).acct = total;
        }
    });
    // SAFETY: as above.
    unsafe { close(ctx) };
}

/// Close the connection that a panic left open: an endpoint with one would bring the child
/// down when it goes. Nothing in here panics.
///
/// # Safety
/// `ctx` is the context of a fetch.
unsafe fn close(ctx: Ctx) {
    // SAFETY: as promised by the caller; with a connection open, the native one that it
    // belongs to is remembered.
    unsafe {
        let bo = (*ctx).bo;
        let Some(htc) = (*bo).htc.as_mut() else { return };
        htc.doclose = sys::SC_TX_ERROR.as_ptr();
        let served = FetchTask::recall(ctx).and_then(FetchTask::served);
        if let Some((native, _)) = served {
            if let Some(native_finish) = methods_of(native.raw()).finish {
                native_finish(ctx, native.raw());
            }
        }
        // Varnish insists on it from 7.7 on.
        (*bo).htc = ptr::null_mut();
    }
}

unsafe extern "C" fn get_ip(ctx: Ctx, _: sys::VCL_BACKEND) -> sys::VCL_IP {
    fence(ctx, "getip", ptr::null(), || {
        // SAFETY: as for finish.
        unsafe {
            let Some((native, _)) = FetchTask::recall(ctx).and_then(FetchTask::served) else {
                return ptr::null();
            };
            methods_of(native.raw()).getip.map_or(ptr::null(), |get_ip| get_ip(ctx, native.raw()))
        }
    })
}

unsafe extern "C" fn pipe(ctx: Ctx, director: sys::VCL_BACKEND) -> sys::stream_close_t {
    // SAFETY: constants of varnishd.
    let not_connected = unsafe { sys::SC_TX_ERROR.as_ptr() };
    fence(ctx, "http1pipe", not_connected, || {
        // SAFETY: Varnish calls this in a client task that pipes, with both req and bo.
        unsafe {
            let Some(endpoints) = endpoints_of(director) else { return not_connected };
            let (req, bo) = ((*ctx).req, (*ctx).bo);
            let received = (*req).acct.req_hdrbytes;
            for index in TryOrder::new(endpoints.len()) {
                let native = endpoints[index].raw();
                let Some(native_pipe) = methods_of(native).http1pipe else { continue };
                (*req).acct.req_hdrbytes = received;
                sys::VRT_Assign_Backend(&raw mut (*bo).director_resp, native);
                let noted = (*req).t_prev;
                let closed = native_pipe(ctx, native);
                // From 7.7 on this very answer can also mean that the request was sent in
                // part. But once there is a connection Varnish notes the time.
                let sent = (*req).t_prev > noted;
                if closed != not_connected || sent {
                    return closed;
                }
            }
            not_connected
        }
    })
}
