//! One fetch, several endpoints: what an attempt changes in the busyobj is put back before
//! the next one.
//!
//! Varnish's own `gethdrs` is made to be called once per fetch. After a failure it has
//! finished its connection; headers that it added to bereq, its use of the workspace, its
//! filters and its byte counts are undone here.

use std::ffi::CStr;
use std::mem;

use crate::director::methods_of;
use crate::native::Native;
use crate::sys::{self, Ctx};

/// Bytes of one or more attempts.
pub type Bytes = sys::acct_bereq;

/// The attempts of one fetch.
pub struct Attempts {
    bo: *mut sys::busyobj,
    workspace: usize,
    bereq_length: u16,
    earlier: Bytes,
    sent: bool,
}

impl Attempts {
    /// Remember how everything was before the first attempt.
    ///
    /// # Safety
    /// `bo` belongs to this thread for as long as the value lives.
    pub unsafe fn new(bo: *mut sys::busyobj) -> Self {
        // SAFETY: as promised by the caller.
        unsafe {
            Self {
                bo,
                workspace: sys::WS_Snapshot((*bo).ws.as_mut_ptr()),
                bereq_length: (*(*bo).bereq).nhd,
                earlier: (*bo).acct,
                sent: false,
            }
        }
    }

    /// Fetch from one endpoint; true when a response has begun.
    ///
    /// # Safety
    /// `ctx` is the context of this fetch.
    pub unsafe fn run(&mut self, ctx: Ctx, native: &Native) -> bool {
        // SAFETY: the busyobj is this thread's, and gethdrs is called as Varnish itself
        // calls it: without a connection open, with an empty beresp.
        unsafe {
            let Some(get_headers) = methods_of(native.raw()).gethdrs else { return false };
            (*self.bo).acct = mem::zeroed();
            let answered = get_headers(ctx, native.raw()) == 0;
            let bytes = (*self.bo).acct;
            if answered {
                add(&mut (*self.bo).acct, &self.earlier);
            } else {
                self.sent |= bytes.bereq_hdrbytes > 0;
                add(&mut self.earlier, &bytes);
                self.put_back();
            }
            answered
        }
    }

    /// Whether an endpoint may have seen a request that failed, so that another one must
    /// not see it again.
    pub fn may_have_been_seen(&self) -> bool {
        // SAFETY: the busyobj is this thread's.
        self.sent || unsafe { !(*self.bo).no_retry.is_null() }
    }

    /// What failed attempts sent and received.
    pub fn earlier_bytes(&self) -> Bytes {
        self.earlier
    }

    /// Tell Varnish what the client gets to see: it becomes beresp in `vcl_backend_error`.
    pub fn give_up(&mut self) {
        let (status, reason): (u16, &'static CStr) = if self.sent {
            (502, c"Endpoint closed the connection or timed out")
        } else {
            (503, c"No endpoint accepts connections")
        };
        // SAFETY: the busyobj is this thread's; the reason is a constant.
        unsafe {
            (*self.bo).acct = self.earlier;
            (*self.bo).err_code = status;
            (*self.bo).err_reason = reason.as_ptr();
        }
    }

    /// # Safety
    /// An attempt has failed, and nothing that it put on the workspace is used any more.
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
