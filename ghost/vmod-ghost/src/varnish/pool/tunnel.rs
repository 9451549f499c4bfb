//! Tunnels: what follows a 101. varnishd copies bytes both ways between the client and an
//! endpoint that has agreed to upgrade.
//!
//! The endpoint's answer has come through varnishd like any other, so that only the 101 itself
//! leads here. The fetch that got it hands its connection over to the client's thread.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io::Write as _;
use std::mem::ManuallyDrop;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, RawFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use super::native::Native;
use super::served;
use crate::varnish::client::Client;
use crate::varnish::fetch::Fetch;
use crate::varnish::http::Http;
use crate::varnish::parameters::pipe_timeout;
use crate::varnish::sys;

/// What varnishd counts of a pipe: bytes of the two heads, and both ways.
#[repr(C)]
#[derive(Default)]
struct PipeBytes {
    req: u64,
    bereq: u64,
    r#in: u64,
    out: u64,
}

extern "C" {
    /// Nonzero if the parameter `pipe_sess_max` allows no further pipe.
    fn V1P_Enter() -> c_int;
    fn V1P_Leave();
    /// Copies until both sides have closed, or none has sent anything for `pipe_timeout`.
    #[cfg(not(vrt19_negative_unset))]
    fn V1P_Process(req: *const sys::req, fd: c_int, bytes: *mut PipeBytes);
    #[cfg(vrt19_negative_unset)]
    fn V1P_Process(
        req: *const sys::req,
        fd: c_int,
        bytes: *mut PipeBytes,
        deadline: f64,
    ) -> sys::stream_close_t;
    fn V1P_Charge(req: *mut sys::req, bytes: *const PipeBytes, statistics: *mut c_void);
}

/// A connection to an endpoint that has agreed to upgrade.
pub struct Tunnel {
    socket: TcpStream,
    /// What the endpoint has sent after its head.
    early: Vec<u8>,
    native: Arc<Native>,
}

impl Tunnel {
    /// Take the connection of a fetch whose endpoint has answered 101. For varnishd the
    /// response then has no body, and it closes its own descriptor of the connection.
    pub fn of(fetch: &mut Fetch<'_>) -> Option<Self> {
        let (_, _, native) = served(fetch.ctx)?;
        // SAFETY: the fetch has a connection, whose descriptor is open, and what lies between
        // the two ends was received on it.
        unsafe {
            let htc = NonNull::new(fetch.raw().htc)?.as_ptr();
            let socket = BorrowedFd::borrow_raw(*(*htc).rfd).try_clone_to_owned().ok()?;
            let (begin, end) = ((*htc).pipeline_b, (*htc).pipeline_e);
            let mut early = Vec::new();
            if !begin.is_null() {
                let length = usize::try_from(end.offset_from(begin));
                early = slice::from_raw_parts(begin.cast(), length.unwrap_or(0)).to_vec();
            }
            (*htc).pipeline_b = ptr::null_mut();
            (*htc).pipeline_e = ptr::null_mut();
            (*htc).body_status = sys::BS_NONE.as_ptr();
            (*htc).doclose = sys::SC_RESP_CLOSE.as_ptr();
            Some(Self { socket: socket.into(), early, native })
        }
    }

    /// Ask varnishd for the tunnel; None if it allows no further one, and the client gets an
    /// error in its stead.
    pub fn enter(self) -> Option<OpenTunnel> {
        // SAFETY: varnishd counts pipes under a lock of its own.
        let refused = unsafe { V1P_Enter() } != 0;
        (!refused).then(|| OpenTunnel(self))
    }

    /// Send a head, copy, and charge the endpoint for the bytes.
    pub(super) fn copy(&self, ctx: &sys::vrt_ctx, head: &[u8]) {
        let mut bytes = PipeBytes::default();
        // varnishd limits how long a pipe is silent, but not how long a write to an endpoint
        // takes that reads nothing.
        let longest = Some(pipe_timeout()).filter(|longest| !longest.is_zero());
        let _ = self.socket.set_write_timeout(longest);
        // SAFETY: the context is that of a client's request over HTTP/1, on its own thread.
        unsafe {
            if write(client_socket(ctx.req), &[head, &self.early]) {
                bytes.out += self.early.len() as u64;
                process(ctx.req, self.socket.as_raw_fd(), &mut bytes);
            }
            if let Some(native) = self.native.director().raw_in(ctx.vcl) {
                let backend = (*native).priv_.cast::<sys::backend>();
                V1P_Charge(ctx.req, &raw const bytes, (*backend).vsc.cast());
            }
        }
    }
}

/// A tunnel that varnishd counts, until this is dropped.
pub struct OpenTunnel(Tunnel);

impl OpenTunnel {
    /// Send the head of the response, and copy until one side closes. varnishd sends nothing
    /// more to the client.
    ///
    /// A tunnel holds the thread of its client; this is the one place where tunnels that
    /// follow a fetch begin and end.
    pub fn run(self, client: &Client<'_>, resp: &Http<'_>) {
        self.0.copy(client.ctx, &head(resp));
        // SAFETY: varnishd delivers a request in this call. The client's socket stays its own;
        // a shut down one rejects the response that varnishd is going to write.
        unsafe {
            let req = client.ctx.req;
            (*req).doclose = sys::SC_TX_PIPE.as_ptr();
            let socket = ManuallyDrop::new(TcpStream::from_raw_fd((*(*req).sp).fd));
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for OpenTunnel {
    fn drop(&mut self) {
        // SAFETY: varnishd counts pipes under a lock of its own, and has counted this one.
        unsafe { V1P_Leave() };
    }
}

/// # Safety
/// `req` is a request on this thread, with an open session.
pub(super) unsafe fn client_socket(req: *const sys::req) -> RawFd {
    // SAFETY: as promised by the caller.
    unsafe { (*(*req).sp).fd }
}

/// Write to a socket that stays varnishd's; false if the client has left.
///
/// # Safety
/// `socket` is open.
pub(super) unsafe fn write(socket: RawFd, pieces: &[&[u8]]) -> bool {
    // SAFETY: as promised by the caller.
    let socket = ManuallyDrop::new(unsafe { File::from_raw_fd(socket) });
    (&*socket).write_all(&pieces.concat()).is_ok()
}

/// # Safety
/// `req` is a request over HTTP/1 on this thread, `fd` an open connection.
unsafe fn process(req: *const sys::req, fd: RawFd, bytes: &mut PipeBytes) {
    // SAFETY: as promised by the caller.
    unsafe {
        #[cfg(not(vrt19_negative_unset))]
        V1P_Process(req, fd, bytes);
        #[cfg(vrt19_negative_unset)]
        {
            let longest = (&raw const (*sys::cache_param).pipe_task_deadline).read_volatile();
            let now = crate::varnish::fetch::now();
            V1P_Process(req, fd, bytes, if longest > 0.0 { now + longest } else { 0.0 });
        }
    }
}

/// The head of a 101, with the headers that hold for one connection.
pub(super) fn head(response: &Http<'_>) -> Vec<u8> {
    let mut head = b"HTTP/1.1 101 Switching Protocols\r\n".to_vec();
    let of_connection = [&b"connection:"[..], b"upgrade:", b"content-length:"];
    for line in response.lines() {
        let begins = |name: &&[u8]| {
            line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
        };
        if !of_connection.iter().any(begins) {
            head.extend_from_slice(line);
            head.extend_from_slice(b"\r\n");
        }
    }
    head.extend_from_slice(b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    head
}
