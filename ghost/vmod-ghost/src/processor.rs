//! Fetch processors: what reads the body of a response, or stands in its way.

use std::ffi::CStr;
use std::mem;

use crate::sys;

/// A processor that only pulls. It lives as long as the VMOD.
pub struct Processor(sys::vfp);

// SAFETY: constants only.
unsafe impl Sync for Processor {}

impl Processor {
    /// A processor of this name.
    pub const fn new(name: &'static CStr, pull: sys::vfp_pull_f) -> Self {
        // SAFETY: a C struct of nullable pointers.
        Self(sys::vfp { name: name.as_ptr(), pull, ..unsafe { mem::zeroed() } })
    }

    /// Put it before those that a fetch has; null where its workspace is full.
    ///
    /// # Safety
    /// `vfc` is the context of a fetch that this thread works on.
    pub unsafe fn push(&'static self, vfc: *mut sys::vfp_ctx) -> *mut sys::vfp_entry {
        // SAFETY: as promised by the caller.
        unsafe { sys::VFP_Push(vfc, &raw const self.0) }
    }
}
