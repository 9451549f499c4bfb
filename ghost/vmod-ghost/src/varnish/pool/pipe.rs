//! Pipes that user VCL asks for: a WebSocket without a delivery.
//!
//! The handshake is a fetch like any other, with its failover and its deadlines. There is no
//! `vcl_deliver` in a pipe: an answer other than 101 becomes a 502.

use std::ffi::CStr;

use super::tunnel::{client_socket, head, write, Tunnel};
use super::{close, finish, has_room, Balance};
use crate::varnish::director::kind_of;
use crate::varnish::fence::fence;
use crate::varnish::fetch::{workspace_of, Fetch};
use crate::varnish::synthetic::{message, Response};
use crate::varnish::sys::{self, Ctx};

const NO_UPGRADE: &str = "the endpoint did not upgrade to a WebSocket";
const NO_TUNNEL: &str = "the gateway can't open the WebSocket";

/// The callback `http1pipe`.
pub(super) unsafe extern "C" fn pipe<K: Balance>(
    ctx: Ctx,
    director: sys::VCL_BACKEND,
) -> sys::stream_close_t {
    // SAFETY: varnishd passes a context and a director of this kind; the other is a constant.
    let (ctx, kind, closed) = unsafe { (&*ctx, kind_of::<K>(director), sys::SC_TX_PIPE.as_ptr()) };
    fence(Some(ctx), "http1pipe", (), || {
        let (Some(kind), Some(mut fetch)) = (kind, Fetch::new(ctx)) else { return };
        begin(&mut fetch);
        if has_room(&mut fetch) {
            kind.fetch(&mut fetch);
        }
        let (mut status, mut reason) = outcome(&fetch);
        let tunnel = if status == 101 { Tunnel::of(&mut fetch) } else { None };
        if tunnel.is_none() && status < 502 {
            (status, reason) = (502, if reason.is_empty() { NO_TUNNEL.to_owned() } else { reason });
        }
        kind.piped(&fetch, status);
        let head = fetch.beresp().map(|beresp| head(&beresp)).unwrap_or_default();
        if !fetch.raw().htc.is_null() {
            // SAFETY: the fetch has a connection of the director's.
            unsafe { finish(ctx, director) };
        }
        if let Some(tunnel) = tunnel {
            tunnel.copy(ctx, &head);
        } else {
            let response = Response::error(status, &reason);
            // SAFETY: a pipe has a client, whose socket is open.
            unsafe { write(client_socket(ctx.req), &[&message(&response)]) };
        }
    });
    close(ctx);
    closed
}

/// Set up what a fetch finds in its busyobj and a pipe does not.
fn begin(fetch: &mut Fetch<'_>) {
    let bo = fetch.bo();
    // SAFETY: the busyobj is this thread's, and no connection is open.
    unsafe {
        let (workspace, log) = (workspace_of(bo), (&raw mut (*bo).vsl).cast());
        sys::HTTP_Setup((*bo).beresp, workspace, log, sys::SLT_BerespMethod);
        let vfc = (*bo).vfc;
        sys::VFP_Setup(vfc, (*bo).wrk);
        (*vfc).resp = (*bo).beresp;
        (*vfc).req = (*bo).bereq;
    }
}

/// The status that the client gets, and the reason if it is an error.
fn outcome(fetch: &Fetch<'_>) -> (u16, String) {
    let bo = fetch.raw();
    if !bo.htc.is_null() {
        let upgraded = fetch.beresp().is_some_and(|beresp| beresp.status() == 101);
        return if upgraded { (101, String::new()) } else { (502, NO_UPGRADE.to_owned()) };
    }
    // SAFETY: null, or a constant text.
    let reason = unsafe { (!bo.err_reason.is_null()).then(|| CStr::from_ptr(bo.err_reason)) };
    (bo.err_code, reason.map_or_else(String::new, |text| text.to_string_lossy().into_owned()))
}
