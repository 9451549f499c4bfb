//! What the TLS terminator before varnishd tells about a connection, by PROXY protocol.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::slice;

use crate::sys::{self, Ctx};

/// The server name that the client asked for.
const AUTHORITY: c_int = 0x02;

extern "C" {
    /// Varnish's own, which its VMOD proxy uses: 0 if there is such a value.
    fn VPX_tlv(
        req: *const sys::req,
        kind: c_int,
        value: *mut *const c_void,
        length: *mut c_int,
    ) -> c_int;
}

/// The server name of the TLS handshake; empty if there was none.
///
/// # Safety
/// `ctx` is the context of a client task, and the result is not kept beyond its session.
pub unsafe fn server_name<'a>(ctx: Ctx) -> &'a [u8] {
    let (mut value, mut length) = (ptr::null(), 0);
    // SAFETY: as promised by the caller; the value lives as long as the session.
    unsafe {
        if VPX_tlv((*ctx).req, AUTHORITY, &raw mut value, &raw mut length) != 0 || value.is_null() {
            return b"";
        }
        slice::from_raw_parts(value.cast(), usize::try_from(length).unwrap_or(0))
    }
}
