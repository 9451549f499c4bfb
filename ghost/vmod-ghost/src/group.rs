//! Directors that stand for others: their health, and what `backend.list` shows of them, in
//! the form that varnishd's own directors use.

use std::ffi::{c_int, CString};
use std::ptr;

use crate::director::{kind_of, Kind};
use crate::fence::fence;
use crate::sys::{self, Ctx};

/// A director that stands for others.
pub trait Group: Kind {
    /// Call `each` with every one of them, which is valid during the call.
    fn for_each(&self, each: &mut dyn FnMut(sys::VCL_BACKEND));
}

/// The callback of the same name: one healthy member is enough.
pub unsafe extern "C" fn healthy<G: Group>(
    ctx: Ctx,
    director: sys::VCL_BACKEND,
    _: *mut sys::VCL_TIME,
) -> sys::VCL_BOOL {
    fence(ctx, "healthy", 0, || {
        // SAFETY: Varnish passes a director of this kind.
        let (up, _) = unsafe { count::<G>(ctx, director) };
        sys::VCL_BOOL::from(up > 0)
    })
}

/// The callback of the same name.
pub unsafe extern "C" fn list<G: Group>(
    ctx: Ctx,
    director: sys::VCL_BACKEND,
    out: *mut sys::vsb,
    details: c_int,
    json: c_int,
) {
    fence(ptr::null(), "list", (), || {
        // SAFETY: Varnish passes a director of this kind and a string buffer.
        unsafe {
            let (up, all) = count::<G>(ctx, director);
            write(out, up, all, details != 0, json != 0);
        }
    });
}

/// How many members are healthy, and how many there are.
///
/// # Safety
/// `ctx` and `director` are valid.
unsafe fn count<G: Group>(ctx: Ctx, director: sys::VCL_BACKEND) -> (usize, usize) {
    let (mut up, mut all) = (0, 0);
    // SAFETY: as promised by the caller.
    if let Some(group) = unsafe { kind_of::<G>(director) } {
        group.for_each(&mut |member| {
            all += 1;
            // SAFETY: the group holds its members during the call.
            up += usize::from(unsafe { sys::VRT_Healthy(ctx, member, ptr::null_mut()) } != 0);
        });
    }
    (up, all)
}

/// Write how many of all are healthy: the table column, or JSON. The details of a probe
/// (`-p`) are empty, for ghost has none.
///
/// # Safety
/// `out` is an open string buffer.
unsafe fn write(out: *mut sys::vsb, up: usize, all: usize, details: bool, json: bool) {
    let health = if up > 0 { "healthy" } else { "sick" };
    let text = match (json, details) {
        (true, true) => "{},\n".to_owned(),
        (true, false) => format!("[{up}, {all}, \"{health}\"]"),
        (false, true) => return,
        (false, false) => format!("{up}/{all}\t{health}"),
    };
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: as promised by the caller; the text is copied.
    unsafe { sys::VSB_cat(out, text.as_ptr()) };
}
