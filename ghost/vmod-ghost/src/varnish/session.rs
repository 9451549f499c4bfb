//! What a request's connection reveals: its socket, and what the TLS terminator in front of
//! varnishd sends about it by PROXY protocol.

use std::ffi::{c_int, c_void, CStr};
use std::net::IpAddr;
use std::ops::Deref;
use std::ptr;
use std::slice;

use super::sys;

/// The type of the PROXY protocol value that holds the TLS server name.
const AUTHORITY: c_int = 0x02;

/// Families of addresses on Linux.
const AF_INET: c_int = 2;
const AF_INET6: c_int = 10;

extern "C" {
    /// A function of varnishd's that its VMOD proxy uses: 0 if there is such a value.
    fn VPX_tlv(
        req: *const sys::req,
        kind: c_int,
        value: *mut *const c_void,
        length: *mut c_int,
    ) -> c_int;
}

/// The sockets that serve all ports of a scheme which were opened while varnishd runs, and what
/// the names of such ports begin with.
const LATER: [(&str, &str); 2] = [("http-later", "http-"), ("https-later", "https-")];
/// The longest name of a port's socket is `https-65535`.
const LONGEST: usize = 11;

/// The name of the socket that serves a port, such as `http-80`.
pub enum SocketName<'a> {
    /// varnishd's own name of a socket.
    Own(&'a str),
    /// Derived from a scheme and a port.
    OfPort(PortName),
}

/// A short text in place: a request allocates nothing for it.
pub struct PortName {
    text: [u8; LONGEST],
    length: usize,
}

impl PortName {
    /// Add the decimal digits of a port to a beginning such as `http-`; None if it is too long.
    fn new(beginning: &str, port: u16) -> Option<Self> {
        let digits = port.checked_ilog10().unwrap_or(0) as usize + 1;
        let length = beginning.len() + digits;
        let mut text = [0; LONGEST];
        text.get_mut(..beginning.len())?.copy_from_slice(beginning.as_bytes());
        let mut rest = port;
        for place in text.get_mut(beginning.len()..length)?.iter_mut().rev() {
            *place = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
        }
        Some(Self { text, length })
    }
}

impl Deref for SocketName<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Own(name) => name,
            Self::OfPort(name) => std::str::from_utf8(&name.text[..name.length]).unwrap_or(""),
        }
    }
}

/// The socket of the port that the request came in on; empty away from a task.
///
/// The TLS terminator serves ports that were opened while varnishd runs, by one socket of
/// varnishd for each scheme. Its PROXY header has the port.
pub(super) fn socket(ctx: &sys::vrt_ctx) -> SocketName<'_> {
    let name = own_socket(ctx);
    beginning_of_later(name)
        .and_then(|beginning| PortName::new(beginning, server_port(ctx)?))
        .map_or(SocketName::Own(name), SocketName::OfPort)
}

/// What the names of a socket's ports begin with, if it serves those that were opened later. An
/// administrator may give another socket any name.
fn beginning_of_later(name: &str) -> Option<&'static str> {
    LATER.into_iter().find(|(later, _)| *later == name).map(|(_, beginning)| beginning)
}

/// The port that the client connected to; None if the connection has none.
fn server_port(ctx: &sys::vrt_ctx) -> Option<u16> {
    // SAFETY: as in own_socket, which has found a session; its address lives as long as it.
    let port = unsafe {
        let address = sys::VRT_r_server_ip(ctx);
        if address.is_null() {
            return None;
        }
        sys::VSA_Port(address)
    };
    u16::try_from(port).ok().filter(|&port| port != 0)
}

/// The address of the client's connection, from the PROXY header where there is one; None for a
/// connection without.
pub(super) fn client_address(ctx: &sys::vrt_ctx) -> Option<IpAddr> {
    if ctx.req.is_null() && ctx.bo.is_null() {
        return None;
    }
    let mut bytes = ptr::null();
    // SAFETY: varnishd finds the session by req or bo, one of which is there; its address lives as
    // long as it, and has as many bytes as its family.
    unsafe {
        let address = sys::VRT_r_client_ip(ctx);
        if address.is_null() {
            return None;
        }
        match sys::VRT_VSA_GetPtr(ctx, address, &raw mut bytes) {
            _ if bytes.is_null() => None,
            AF_INET => Some(IpAddr::from(bytes.cast::<[u8; 4]>().read())),
            AF_INET6 => Some(IpAddr::from(bytes.cast::<[u8; 16]>().read())),
            _ => None,
        }
    }
}

/// varnishd's name of the socket that the request came in on; empty away from a task.
fn own_socket(ctx: &sys::vrt_ctx) -> &str {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_two_sockets_of_later_ports_have_ports() {
        assert_eq!(beginning_of_later("http-later"), Some("http-"));
        assert_eq!(beginning_of_later("https-later"), Some("https-"));
        for other in ["later", "x-later", "ghost-later", "http-80", ""] {
            assert_eq!(beginning_of_later(other), None);
        }
    }

    #[test]
    fn name_of_a_port_has_its_decimal_digits() {
        for (beginning, port, name) in
            [("http-", 1, "http-1"), ("http-", 8081, "http-8081"), ("https-", 65535, "https-65535")]
        {
            let made = PortName::new(beginning, port).map(SocketName::OfPort);
            assert_eq!(made.as_deref(), Some(name));
        }
        assert!(PortName::new("another-", 65535).is_none());
    }
}
