//! Bodies whose length no field tells: they are counted as they arrive.

use std::cell::Cell;
use std::ffi::{c_void, CStr};

use super::super::fetch::Fetch;
use super::super::http::OutOfWorkspace;
use super::super::pool::has_body;
use super::super::processor::{Processor, Step};
use super::super::sys;
use super::object::HSH_Kill;

/// Counts a body. It lies on the workspace of its fetch.
struct Count {
    left: Cell<u64>,
    key: u64,
    exceeded: fn(u64),
}

static COUNT: Processor<Count> = Processor::new(c"ghost_size");

impl Fetch<'_> {
    /// Have no request find the object once more than `most` bytes have arrived. The clients that
    /// get it already get all of it. `exceeded` is told so, with the key.
    pub fn limit_body(
        &mut self,
        most: u64,
        key: u64,
        exceeded: fn(u64),
    ) -> Result<(), OutOfWorkspace> {
        let count = Count { left: Cell::new(most), key, exceeded };
        let bo = self.bo();
        // SAFETY: the fetch is this thread's; null, or its connection.
        unsafe {
            let htc = (*bo).htc;
            if htc.is_null() || !has_body(htc) {
                return Ok(());
            }
            COUNT.add(bo, count).ok_or(OutOfWorkspace)
        }
    }
}

impl Step for Count {
    const ENTRY: &'static str = "size";
    const ERROR: &'static CStr = c"ghost: the body can't be counted";

    unsafe fn pull(
        &self,
        vfc: *mut sys::vfp_ctx,
        to: *mut c_void,
        length: *mut isize,
    ) -> Option<sys::vfp_status> {
        // SAFETY: varnishd calls with room at `to`; the fetch has the object that it makes.
        unsafe {
            let status = sys::VFP_Suck(vfc, to, length);
            let (left, arrived) = (self.left.get(), u64::try_from(*length).unwrap_or(0));
            self.left.set(left.saturating_sub(arrived));
            if arrived > left {
                // From now on nothing is left, so that each further piece comes here, too.
                (self.exceeded)(self.key);
                remove((*vfc).oc);
            }
            Some(status)
        }
    }
}

/// # Safety
/// This thread fetches the object.
unsafe fn remove(object: *mut sys::objcore) {
    // SAFETY: as promised by the caller. While the object is busy, no other thread reads its times.
    unsafe {
        if u32::from((*object).flags) & sys::OC_F_BUSY == 0 {
            HSH_Kill(object);
        } else {
            ((*object).ttl, (*object).grace, (*object).keep) = (0.0, 0.0, 0.0);
        }
    }
}
