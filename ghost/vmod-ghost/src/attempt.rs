//! One fetch, several attempts: what an attempt changes in the busyobj is put back before
//! the next one.
//!
//! Varnish's own `gethdrs` is made to be called once per fetch. After a failure it has
//! finished its connection; headers that it added to bereq, its use of the workspace, its
//! filters and its byte counts are undone here.

use std::ffi::CStr;
use std::mem;
use std::time::Instant;

use crate::director::methods_of;
use crate::drain;
use crate::native::Native;
use crate::patience::{End, Waits};
use crate::sys::{self, Ctx};

/// Bytes of one or more attempts.
pub type Bytes = sys::acct_bereq;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A response with this status has begun.
    Answered(u16),
    /// No connection came about, so the endpoint has seen nothing, and nothing is lost.
    Unsent,
    /// The same, because time was up.
    Unreachable,
    /// The endpoint may have seen the request, or its body is gone, and the connection broke.
    Broken,
    /// The same, but time was up.
    TimedOut,
}

/// The attempts of one fetch.
pub struct Attempts {
    ctx: Ctx,
    bo: *mut sys::busyobj,
    workspace: usize,
    bereq_length: u16,
    earlier: Bytes,
    last: Ended,
}

impl Attempts {
    /// Remember how everything was before the first attempt.
    ///
    /// # Safety
    /// `ctx` is the context of a fetch, whose busyobj belongs to this thread for as long as
    /// the value lives.
    pub unsafe fn new(ctx: Ctx) -> Self {
        // SAFETY: as promised by the caller.
        unsafe {
            let bo = (*ctx).bo;
            Self {
                ctx,
                bo,
                workspace: sys::WS_Snapshot((*bo).ws.as_mut_ptr()),
                bereq_length: (*(*bo).bereq).nhd,
                earlier: (*bo).acct,
                last: Ended::Unsent,
            }
        }
    }

    /// Fetch from one endpoint, until then at most.
    pub fn run(&mut self, native: &Native, end: End) -> Ended {
        // SAFETY: the busyobj is this thread's, and gethdrs is called as Varnish itself
        // calls it: without a connection open, with an empty beresp.
        unsafe {
            let Some(get_headers) = methods_of(native.raw()).gethdrs else { return Ended::Unsent };
            let waits = Waits::begin(self.ctx, end);
            (*self.bo).acct = mem::zeroed();
            let answered = get_headers(self.ctx, native.raw()) == 0;
            let bytes = (*self.bo).acct;
            self.last = if answered {
                add(&mut (*self.bo).acct, &self.earlier);
                Ended::Answered((*(*self.bo).beresp).status)
            } else {
                // A body that was read for this attempt is gone, if none of it was written.
                let sent = bytes.bereq_hdrbytes > 0 || !self.can_repeat();
                let ended = waits.failure(self.ctx, sent);
                add(&mut self.earlier, &bytes);
                self.put_back();
                ended
            };
            waits.end(self.ctx);
            self.last
        }
    }

    /// Throw the response away that the last attempt brought, until this moment at most.
    pub fn discard(&mut self, native: &Native, until: Option<Instant>) {
        // SAFETY: the attempt was answered, so a connection to the endpoint is open; it is
        // finished as Varnish itself does after a response.
        unsafe {
            drain::or_close(self.ctx, until);
            subtract(&mut (*self.bo).acct, &self.earlier);
            let bytes = (*self.bo).acct;
            if let Some(finish) = methods_of(native.raw()).finish {
                finish(self.ctx, native.raw());
            }
            add(&mut self.earlier, &bytes);
            self.put_back();
        }
    }

    /// Whether the request can be sent once more: its body, if any, is still there.
    pub fn can_repeat(&self) -> bool {
        // SAFETY: the busyobj is this thread's.
        unsafe { (*self.bo).no_retry.is_null() }
    }

    /// What failed attempts sent and received.
    pub fn earlier_bytes(&self) -> Bytes {
        self.earlier
    }

    /// Tell Varnish what the client gets to see: it becomes beresp in `vcl_backend_error`.
    pub fn give_up(&mut self, time_is_up: bool) {
        let (status, reason): (u16, &'static CStr) = match self.last {
            _ if time_is_up => (504, c"Request timed out"),
            Ended::TimedOut | Ended::Unreachable => (504, c"Endpoint timed out"),
            Ended::Broken | Ended::Answered(_) => (502, c"Endpoint closed the connection"),
            Ended::Unsent => (503, c"No endpoint accepts connections"),
        };
        // SAFETY: the busyobj is this thread's; the reason is a constant.
        unsafe {
            (*self.bo).acct = self.earlier;
            (*self.bo).err_code = status;
            (*self.bo).err_reason = reason.as_ptr();
        }
    }

    /// # Safety
    /// An attempt is over, and nothing that it put on the workspace is used any more.
    unsafe fn put_back(&mut self) {
        // SAFETY: the order is that of Varnish's own start of a fetch.
        unsafe {
            let bo = &mut *self.bo;
            let vfc = bo.vfc;
            let object = (*vfc).oc;
            self.earlier.beresp_bodybytes += sys::VFP_Close(vfc);
            sys::VFP_Setup(vfc, bo.wrk);
            (*vfc).oc = object;
            (*vfc).resp = bo.beresp;
            (*vfc).req = bo.bereq;
            let workspace = bo.ws.as_mut_ptr();
            sys::HTTP_Setup(bo.beresp, workspace, bo.vsl.as_mut_ptr(), sys::SLT_BerespMethod);
            (*bo.bereq).nhd = self.bereq_length;
            sys::WS_Reset(workspace, self.workspace);
        }
    }
}

fn add(sum: &mut Bytes, more: &Bytes) {
    sum.bereq_hdrbytes += more.bereq_hdrbytes;
    sum.bereq_bodybytes += more.bereq_bodybytes;
    sum.beresp_hdrbytes += more.beresp_hdrbytes;
    sum.beresp_bodybytes += more.beresp_bodybytes;
}

/// Take `less` out of `sum`.
pub fn subtract(sum: &mut Bytes, less: &Bytes) {
    sum.bereq_hdrbytes -= less.bereq_hdrbytes;
    sum.bereq_bodybytes -= less.bereq_bodybytes;
    sum.beresp_hdrbytes -= less.beresp_hdrbytes;
    sum.beresp_bodybytes -= less.beresp_bodybytes;
}
