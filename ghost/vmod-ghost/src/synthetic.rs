//! Directors that answer by themselves: errors, redirects, ghost's own pages.
//!
//! An answer is made in `gethdrs` and its body comes from a fetch processor, so that
//! neither `vcl_synth` nor `vcl_backend_error` has to be generated.

use std::ffi::{c_int, c_void, CStr};
use std::fs::File;
use std::io::Write as _;
use std::mem::{self, ManuallyDrop};
use std::os::fd::FromRawFd as _;
use std::ptr;
use std::slice;
use std::sync::Arc;

use crate::director::{destroy, kind_of, Director, Kind, Methods, Refused, Vcl};
use crate::fence::fence;
use crate::http::{Http, OutOfWorkspace};
use crate::processor::Processor;
use crate::sys::{self, Ctx};

/// An answer of ghost's own.
#[derive(Clone)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Headers beside those that describe the body.
    pub headers: Vec<(&'static str, Vec<u8>)>,
    /// A JSON document, or nothing.
    pub body: Arc<[u8]>,
}

impl Answer {
    /// An error, with its reason in a small JSON body. It is not for caches.
    pub fn error(status: u16, reason: &str) -> Self {
        let body = serde_json::json!({ "status": status, "reason": reason }).to_string();
        Self {
            status,
            headers: vec![("Cache-Control", b"no-store".to_vec())],
            body: body.into_bytes().into(),
        }
    }
}

type Answering = dyn Fn(Ctx, &Http<'_>) -> Answer + Send + Sync;

/// What such a director keeps: how to answer a fetch, given bereq.
pub struct Synthetic(Box<Answering>);

impl Synthetic {
    /// Add one to a VCL.
    pub fn add(
        vcl: Vcl,
        name: &str,
        answering: impl Fn(Ctx, &Http<'_>) -> Answer + Send + Sync + 'static,
    ) -> Result<Director, Refused> {
        Director::add(vcl, &format!("answer({name})"), Self(Box::new(answering)))
    }
}

impl Kind for Synthetic {
    const METHODS: &'static Methods = &METHODS;
}

static METHODS: Methods = Methods(sys::vdi_methods {
    type_: c"ghost-answer".as_ptr(),
    gethdrs: Some(get_headers),
    finish: Some(finish),
    http1pipe: Some(pipe),
    destroy: Some(destroy::<Synthetic>),
    ..Methods::NONE
});

/// Whether such a director made the response of the fetch.
pub fn answered(bo: &sys::busyobj) -> bool {
    // SAFETY: a busyobj refers to the director that it has.
    unsafe { kind_of::<Synthetic>(bo.director_resp) }.is_some()
}

/// A body on its way, owned by the connection that stands for it: `finish` is called
/// however a fetch ends, the `fini` of a processor is not.
struct Body {
    bytes: Arc<[u8]>,
    sent: usize,
}

static BODY: Processor = Processor::new(c"ghost_answer", Some(pull));

unsafe extern "C" fn get_headers(ctx: Ctx, director: sys::VCL_BACKEND) -> c_int {
    fence(ctx, "answer", -1, || {
        // SAFETY: Varnish calls this in a fetch task, with a director of this kind.
        unsafe {
            let Some(synthetic) = kind_of::<Synthetic>(director) else { return -1 };
            let Some(bereq) = Http::new((*(*ctx).bo).bereq) else { return -1 };
            let answer = (synthetic.0)(ctx, &bereq);
            let bo = &mut *(*ctx).bo;
            // An answer would take the place of the object that grace goes on serving.
            if bo.is_bgfetch() != 0 && answer.status >= 500 {
                bo.err_code = answer.status;
                bo.err_reason = sys::http_Status2Reason(answer.status.into(), ptr::null_mut());
                return -1;
            }
            let with_body = bereq.method() != b"HEAD" && !answer.body.is_empty();
            match put_answer(bo, &answer, with_body) {
                Ok(()) => 0,
                Err(OutOfWorkspace) => -1,
            }
        }
    })
}

/// Make beresp, and a connection that no socket belongs to.
///
/// # Safety
/// `bo` is at the start of a fetch, with an empty beresp.
unsafe fn put_answer(
    bo: &mut sys::busyobj,
    answer: &Answer,
    with_body: bool,
) -> Result<(), OutOfWorkspace> {
    // SAFETY: beresp is set up before gethdrs is called.
    let mut beresp = unsafe { Http::new(bo.beresp) }.ok_or(OutOfWorkspace)?;
    beresp.put_status(answer.status);
    for (name, value) in &answer.headers {
        beresp.set(name, value)?;
    }
    // Without a body there is nothing of that type: some clients would try to read it.
    if with_body {
        beresp.set("Content-Type", b"application/json")?;
    }
    if answer.status != 204 {
        beresp.set("Content-Length", answer.body.len().to_string().as_bytes())?;
    }
    let size = u32::try_from(mem::size_of::<sys::http_conn>()).map_err(|_| OutOfWorkspace)?;
    // SAFETY: the workspace is this thread's; an all-zero http_conn is one without socket.
    unsafe {
        let htc: *mut sys::http_conn = sys::WS_Alloc(bo.ws.as_mut_ptr(), size).cast();
        if htc.is_null() {
            return Err(OutOfWorkspace);
        }
        htc.write(mem::zeroed());
        (*htc).magic = sys::HTTP_CONN_MAGIC;
        (*htc).doclose = sys::SC_REM_CLOSE.as_ptr();
        (*htc).body_status = sys::BS_NONE.as_ptr();
        if with_body {
            let entry = BODY.push(bo.vfc);
            if entry.is_null() {
                return Err(OutOfWorkspace);
            }
            let body = Box::into_raw(Box::new(Body { bytes: Arc::clone(&answer.body), sent: 0 }));
            (*entry).priv1 = body.cast();
            (*htc).priv_ = body.cast();
            (*htc).body_status = sys::BS_LENGTH.as_ptr();
            (*htc).content_length = isize::try_from(answer.body.len()).unwrap_or(0);
        }
        bo.htc = htc;
    }
    Ok(())
}

unsafe extern "C" fn pull(
    vfc: *mut sys::vfp_ctx,
    entry: *mut sys::vfp_entry,
    to: *mut c_void,
    length: *mut isize,
) -> sys::vfp_status {
    fence(ptr::null(), "pull", None, || {
        // SAFETY: priv1 is the body until finish; Varnish gives room for `length` bytes.
        unsafe {
            let body = (*entry).priv1.cast::<Body>().as_mut()?;
            let room = slice::from_raw_parts_mut(to.cast::<u8>(), usize::try_from(*length).ok()?);
            let rest = body.bytes.get(body.sent..)?;
            let count = rest.len().min(room.len());
            room[..count].copy_from_slice(&rest[..count]);
            body.sent += count;
            *length = isize::try_from(count).ok()?;
            Some(if count == rest.len() { sys::VFP_END } else { sys::VFP_OK })
        }
    })
    .unwrap_or_else(|| {
        // SAFETY: the format takes no argument.
        unsafe {
            *length = 0;
            sys::VFP_Error(vfc, c"ghost: no body".as_ptr())
        }
    })
}

unsafe extern "C" fn finish(ctx: Ctx, _: sys::VCL_BACKEND) {
    fence(ptr::null(), "finish-answer", (), || {
        // SAFETY: Varnish calls this once after gethdrs succeeded; htc is the one made there.
        unsafe {
            let bo = &mut *(*ctx).bo;
            if let Some(htc) = bo.htc.as_mut() {
                if !htc.priv_.is_null() {
                    drop(Box::from_raw(htc.priv_.cast::<Body>()));
                    htc.priv_ = ptr::null_mut();
                }
            }
        }
    });
    // Varnish insists on it from 7.7 on, also after a panic.
    // SAFETY: Varnish calls this with the busyobj of the fetch, which is this thread's.
    unsafe { (*(*ctx).bo).htc = ptr::null_mut() };
}

/// A pipe has no response of varnishd's making: the answer goes to the client as it is,
/// and the connection is closed.
unsafe extern "C" fn pipe(ctx: Ctx, director: sys::VCL_BACKEND) -> sys::stream_close_t {
    // SAFETY: constants of varnishd.
    let closed = unsafe { sys::SC_TX_PIPE.as_ptr() };
    fence(ctx, "pipe-answer", closed, || {
        // SAFETY: Varnish calls this in a client task that pipes, with a director of this
        // kind; the client's socket is open, and stays varnishd's.
        unsafe {
            let Some(synthetic) = kind_of::<Synthetic>(director) else { return closed };
            let Some(bereq) = Http::new((*(*ctx).bo).bereq) else { return closed };
            let message = message(&(synthetic.0)(ctx, &bereq));
            let socket = File::from_raw_fd((*(*(*ctx).req).sp).fd);
            // A client that is gone does not want it.
            let _ = ManuallyDrop::new(socket).write_all(&message);
            closed
        }
    })
}

/// The answer as bytes.
fn message(answer: &Answer) -> Vec<u8> {
    // SAFETY: asks for the constant text of a status.
    let reason =
        unsafe { CStr::from_ptr(sys::http_Status2Reason(answer.status.into(), ptr::null_mut())) };
    let mut message =
        format!("HTTP/1.1 {} {}\r\n", answer.status, reason.to_string_lossy()).into_bytes();
    for (name, value) in &answer.headers {
        message.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    let end = format!("Content-Length: {}\r\nConnection: close\r\n\r\n", answer.body.len());
    message.extend(end.into_bytes());
    message.extend_from_slice(&answer.body);
    message
}
