//! What a request's connection reveals: its socket, and what the TLS terminator in front of
//! varnishd sends about it by PROXY protocol.

use std::ffi::{c_int, c_void, CStr};
use std::ptr;
use std::slice;

use super::sys;

/// The type of the PROXY protocol value that holds the TLS server name.
const AUTHORITY: c_int = 0x02;

extern "C" {
    /// A function of varnishd's that its VMOD proxy uses: 0 if there is such a value.
    fn VPX_tlv(
        req: *const sys::req,
        kind: c_int,
        value: *mut *const c_void,
        length: *mut c_int,
    ) -> c_int;
}

/// The name of the socket that the request came in on; empty away from a task.
pub(super) fn socket(ctx: &sys::vrt_ctx) -> &str {
    if ctx.req.is_null() && ctx.bo.is_null() {
        return "";
    }
    // SAFETY: varnishd finds the session by req or bo, one of which is there; names of
    // sockets live as long as varnishd.
    unsafe {
        let name = sys::VRT_r_local_socket(ctx);
        if name.is_null() {
            return "";
        }
        CStr::from_ptr(name).to_str().unwrap_or("")
    }
}

/// The server name of the TLS handshake; empty if there was none.
///
/// # Safety
/// `req` is valid for `'a`, and so is its session.
pub(super) unsafe fn server_name<'a>(req: *const sys::req) -> &'a [u8] {
    let (mut value, mut length) = (ptr::null(), 0);
    // SAFETY: as promised by the caller; the value lives as long as the session.
    unsafe {
        if VPX_tlv(req, AUTHORITY, &raw mut value, &raw mut length) != 0 || value.is_null() {
            return b"";
        }
        slice::from_raw_parts(value.cast(), usize::try_from(length).unwrap_or(0))
    }
}
