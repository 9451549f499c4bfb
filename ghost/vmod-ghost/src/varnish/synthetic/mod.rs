//! Directors that respond without a backend: errors, redirects, ghost's own pages.
//!
//! `gethdrs` makes the response and a fetch processor supplies its body, so that ghost has
//! to generate neither `vcl_synth` nor `vcl_backend_error`.

mod body;
pub(super) mod request;

use std::ffi::{c_int, CStr};
use std::fs::File;
use std::io::Write as _;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd as _;
use std::ptr;
use std::sync::Arc;

use serde_json::json;

use super::director::{kind_of, Kind, Methods, NO_CALLBACKS};
use super::fence::fence;
use super::fetch::Fetch;
use super::http::{reason_of, OutOfWorkspace};
use super::sys::{self, Ctx};
use body::Connection;

/// A response of ghost's own.
#[derive(Clone)]
pub struct Response {
    /// Its status.
    pub status: u16,
    /// Headers beside those that describe the body.
    pub headers: Vec<(&'static str, Vec<u8>)>,
    /// A JSON document, or nothing.
    pub body: Arc<[u8]>,
}

impl Response {
    /// An error, with its reason in a small JSON body. It is not for caches.
    pub fn error(status: u16, reason: &str) -> Self {
        let body = json!({ "status": status, "reason": reason }).to_string();
        Self {
            status,
            headers: vec![("Cache-Control", b"no-store".to_vec())],
            body: body.into_bytes().into(),
        }
    }
}

/// A director that responds by itself.
pub trait Respond: Kind {
    /// The response to a fetch or a pipe.
    fn respond(&self, fetch: &Fetch<'_>) -> Response;
}

impl<K: Respond> Methods<K> {
    /// The callbacks of such a director.
    pub const fn responding(type_: &'static CStr) -> Self {
        let callbacks = sys::vdi_methods {
            gethdrs: Some(get_headers::<K>),
            finish: Some(finish),
            http1pipe: Some(pipe::<K>),
            ..NO_CALLBACKS
        };
        Self::new(type_, callbacks)
    }
}

unsafe extern "C" fn get_headers<K: Respond>(ctx: Ctx, director: sys::VCL_BACKEND) -> c_int {
    // SAFETY: varnishd passes a context and a director of this kind.
    let (ctx, kind) = unsafe { (&*ctx, kind_of::<K>(director)) };
    fence(Some(ctx), "answer", -1, || {
        let (Some(kind), Some(mut fetch)) = (kind, Fetch::new(ctx)) else { return -1 };
        let response = kind.respond(&fetch);
        // A response would replace the object that varnishd has, and may go on to serve: in grace,
        // or because a client has forced its validation.
        if response.status >= 400 && fetch.replaces_object() {
            fetch.set_error(response.status, reason_of(response.status));
            return -1;
        }
        match put(&mut fetch, &response) {
            Ok(()) => 0,
            Err(OutOfWorkspace) => -1,
        }
    })
}

/// Fill beresp, and make a connection without a socket.
fn put(fetch: &mut Fetch<'_>, response: &Response) -> Result<(), OutOfWorkspace> {
    let is_head = fetch.bereq().is_some_and(|bereq| bereq.method() == b"HEAD");
    let with_body = !is_head && !response.body.is_empty();
    let mut beresp = fetch.beresp().ok_or(OutOfWorkspace)?;
    beresp.put_status(response.status);
    for (name, value) in &response.headers {
        beresp.set(name, value)?;
    }
    // Without a body there is nothing of that type: some clients would try to read it.
    if with_body {
        beresp.set("Content-Type", b"application/json")?;
    }
    if response.status != 204 {
        beresp.set("Content-Length", response.body.len().to_string().as_bytes())?;
    }
    let body = with_body.then(|| Arc::clone(&response.body));
    Connection::open(fetch, body)
}

unsafe extern "C" fn finish(ctx: Ctx, _: sys::VCL_BACKEND) {
    // SAFETY: varnishd passes the context of the fetch in which gethdrs succeeded, and calls
    // this once.
    unsafe {
        let ctx = &*ctx;
        fence(None, "finish-answer", (), || Connection::close(ctx));
        // varnishd insists on it from 7.7 on, also after a panic.
        (*ctx.bo).htc = ptr::null_mut();
    }
}

/// A pipe has no response that varnishd makes: ghost writes the response to the client as it
/// is, and varnishd closes the connection.
unsafe extern "C" fn pipe<K: Respond>(ctx: Ctx, director: sys::VCL_BACKEND) -> sys::stream_close_t {
    // SAFETY: varnishd passes a context and a director of this kind; the rest is a constant.
    let (ctx, kind, closed) = unsafe { (&*ctx, kind_of::<K>(director), sys::SC_TX_PIPE.as_ptr()) };
    fence(Some(ctx), "pipe-answer", closed, || {
        let (Some(kind), Some(fetch)) = (kind, Fetch::new(ctx)) else { return closed };
        let message = message(&kind.respond(&fetch));
        // SAFETY: varnishd pipes a request, whose client's socket is open, and stays
        // varnishd's.
        unsafe {
            let Some(session) = ctx.req.as_ref().and_then(|req| req.sp.as_ref()) else {
                return closed;
            };
            let socket = ManuallyDrop::new(File::from_raw_fd(session.fd));
            // A client that has left does not read it.
            let _ = (&*socket).write_all(&message);
        }
        closed
    })
}

/// The response as bytes.
pub(super) fn message(response: &Response) -> Vec<u8> {
    let reason = reason_of(response.status).to_string_lossy();
    let mut message = format!("HTTP/1.1 {} {reason}\r\n", response.status).into_bytes();
    for (name, value) in &response.headers {
        message.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    let end = format!("Content-Length: {}\r\nConnection: close\r\n\r\n", response.body.len());
    message.extend(end.into_bytes());
    message.extend_from_slice(&response.body);
    message
}
