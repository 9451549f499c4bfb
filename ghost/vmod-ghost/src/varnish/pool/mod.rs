//! Directors that fetch from varnishd's own backends.
//!
//! Such a director wraps native backends by calling their methods, several times in one
//! fetch if need be ([`attempts`]). Once an attempt has a response, the task remembers the
//! native backend that it came from: `finish` and `getip` go to that one.

pub(super) mod attempts;
mod body_deadline;
mod bytes;
mod drain;
pub(super) mod kept_body;
pub(super) mod native;
pub(super) mod pipe;
mod request_step;
mod second_chance;
mod sending;
mod socket;
pub(super) mod statistics;
pub(super) mod timeouts;
pub(super) mod tunnel;

use std::ffi::{c_int, CStr};
use std::ptr;
use std::sync::Arc;

use super::director::group::{healthy, list, Group};
use super::director::{kind_of, methods_of, Methods, NO_CALLBACKS};
use super::fence::fence;
use super::fetch::{workspace_of, Fetch};
use super::sys::{self, Ctx};
use super::task::{self, Slot, Task};
use super::workspace;
use bytes::Bytes;
pub(super) use drain::has_body;
use native::Native;

/// Header lines that varnishd may add to a request when it sends it: Transfer-Encoding, and
/// Host where an HTTP/1.0 client sent none.
pub const LINES_OF_VARNISHD: u16 = 2;
/// How much workspace varnishd may use until it has sent the request, with room to spare.
const BYTES_OF_VARNISHD: usize = 2 << 10;

/// A director that fetches from native backends.
pub trait Balance: Group {
    /// Fetch, by [`Attempts`](attempts::Attempts). The response of the last attempt is that
    /// of the fetch.
    fn fetch(&self, fetch: &mut Fetch<'_>);

    /// A pipe has begun, with a 101, or has failed with another status.
    fn piped(&self, pipe: &Fetch<'_>, status: u16);
}

impl<K: Balance> Methods<K> {
    /// The callbacks of such a director.
    pub const fn balancing(type_: &'static CStr) -> Self {
        let callbacks = sys::vdi_methods {
            healthy: Some(healthy::<K>),
            gethdrs: Some(get_headers::<K>),
            getip: Some(get_ip),
            finish: Some(finish),
            http1pipe: Some(pipe::pipe::<K>),
            list: Some(list::<K>),
            ..NO_CALLBACKS
        };
        Self::new(type_, callbacks)
    }
}

/// Where the response of a fetch comes from, and the bytes of failed attempts before it; when
/// the attempt began.
#[derive(Default)]
struct Served(Option<(Arc<Native>, Bytes)>, Option<f64>);

impl Task for Served {
    fn slot() -> &'static Slot<Self> {
        static SLOT: Slot<Served> = Slot::new(c"ghost served");
        &SLOT
    }
}

/// When the attempt began that serves the fetch of `ctx`, by varnishd's clock.
pub(super) fn began(ctx: &sys::vrt_ctx) -> Option<f64> {
    task::recall::<Served>(ctx)?.get().1
}

/// The native backend that serves the fetch of `ctx`, for a call of its methods.
fn served(ctx: &sys::vrt_ctx) -> Option<(sys::VCL_BACKEND, Bytes, Arc<Native>)> {
    let memory = task::recall::<Served>(ctx)?.get();
    let (native, earlier) = memory.0.as_ref()?;
    Some((native.director().raw_in(ctx.vcl)?, *earlier, Arc::clone(native)))
}

unsafe extern "C" fn get_headers<K: Balance>(ctx: Ctx, director: sys::VCL_BACKEND) -> c_int {
    // SAFETY: varnishd passes a context and a director of this kind.
    let (ctx, kind) = unsafe { (&*ctx, kind_of::<K>(director)) };
    let fetched = fence(Some(ctx), "gethdrs", false, || {
        let (Some(kind), Some(mut fetch)) = (kind, Fetch::new(ctx)) else { return false };
        if !has_room(&mut fetch) {
            return false;
        }
        kind.fetch(&mut fetch);
        #[cfg(feature = "test-panic")]
        super::fence::trip("gethdrs-late");
        // A response has begun where a connection is open.
        !fetch.raw().htc.is_null()
    });
    if !fetched {
        close(ctx);
        return -1;
    }
    0
}

/// Whether varnishd can add its headers to bereq. It would leave out what does not fit, also
/// the header that says where the body ends: an endpoint would then read the body as requests.
fn has_room(fetch: &mut Fetch<'_>) -> bool {
    let lines_fit = fetch.bereq().is_some_and(|bereq| bereq.has_room_for(LINES_OF_VARNISHD));
    // SAFETY: the workspace is this thread's; the allocation is given back at once.
    let bytes_fit = unsafe {
        let workspace = workspace_of(fetch.bo());
        let start = sys::WS_Snapshot(workspace);
        let room = workspace::room_for::<[u8; BYTES_OF_VARNISHD]>(workspace);
        let fits = room.is_some() && !workspace::has_overflowed(workspace);
        sys::WS_Reset(workspace, start);
        fits
    };
    if !(lines_fit && bytes_fit) {
        fetch.set_error(503, c"Too many headers");
    }
    lines_fit && bytes_fit
}

unsafe extern "C" fn finish(ctx: Ctx, _: sys::VCL_BACKEND) {
    // SAFETY: varnishd passes a context.
    let ctx = unsafe { &*ctx };
    fence(Some(ctx), "finish", (), || {
        let (Some(mut fetch), Some((native, earlier, _held))) = (Fetch::new(ctx), served(ctx))
        else {
            return;
        };
        let total = fetch.raw().acct;
        // varnishd charges an endpoint for what it itself sent and received.
        bytes::set(&mut fetch, bytes::difference(total, &earlier));
        // SAFETY: varnishd calls this in the fetch for which the native backend opened its
        // connection.
        unsafe { finish_native(ctx, native) };
        bytes::set(&mut fetch, total);
    });
    close(ctx);
}

/// # Safety
/// `ctx` is that of a fetch, which has a connection of this native backend.
unsafe fn finish_native(ctx: &sys::vrt_ctx, native: sys::VCL_BACKEND) {
    // SAFETY: as promised by the caller.
    unsafe {
        if let Some(finish) = methods_of(native).finish {
            finish(ctx, native);
        }
    }
}

/// Close the connection that a panic left open: varnishd's child would go down when it
/// destroys an endpoint with an open connection. Nothing in here panics.
fn close(ctx: &sys::vrt_ctx) {
    // SAFETY: varnishd calls with the busyobj of a fetch; the connection is this fetch's.
    unsafe {
        let htc = ctx.bo.as_ref().map_or(ptr::null_mut(), |bo| bo.htc);
        if htc.is_null() {
            return;
        }
        (*htc).doclose = sys::SC_TX_ERROR.as_ptr();
        // With a connection open, the task remembers the native backend that it belongs to.
        if let Some((native, ..)) = served(ctx) {
            finish_native(ctx, native);
        }
        // varnishd insists on it from 7.7 on.
        (*ctx.bo).htc = ptr::null_mut();
    }
}

unsafe extern "C" fn get_ip(ctx: Ctx, _: sys::VCL_BACKEND) -> sys::VCL_IP {
    // SAFETY: varnishd passes a context.
    let ctx = unsafe { &*ctx };
    fence(Some(ctx), "getip", ptr::null(), || {
        let Some((native, _, _held)) = served(ctx) else { return ptr::null() };
        // SAFETY: varnishd calls this in the fetch that the native backend serves.
        unsafe { methods_of(native).getip.map_or(ptr::null(), |get_ip| get_ip(ctx, native)) }
    })
}
