//! Directors that stand for others: their health, and what `backend.list` shows of them, in
//! the form that varnishd's own directors use.

use std::ffi::{c_int, CString};
use std::ptr;

use super::{kind_of, vcl_of, Director, Kind};
use crate::varnish::fence::fence;
use crate::varnish::sys::{self, Ctx};

/// A director that stands for others.
pub trait Group: Kind {
    /// Call `each` with every one of them.
    fn for_each(&self, each: &mut dyn FnMut(&Director));
}

/// The callback of the same name: a group with one healthy director is healthy.
pub(in crate::varnish) unsafe extern "C" fn healthy<G: Group>(
    ctx: Ctx,
    director: sys::VCL_BACKEND,
    _: *mut sys::VCL_TIME,
) -> sys::VCL_BOOL {
    // SAFETY: varnishd passes a context, and a director of this kind.
    let (ctx, count) = unsafe { (ctx.as_ref(), || count::<G>(ctx, director)) };
    fence(ctx, "healthy", 0, || sys::VCL_BOOL::from(count().0 > 0))
}

/// The callback of the same name.
pub(in crate::varnish) unsafe extern "C" fn list<G: Group>(
    ctx: Ctx,
    director: sys::VCL_BACKEND,
    out: *mut sys::vsb,
    details: c_int,
    json: c_int,
) {
    fence(None, "list", (), || {
        // SAFETY: varnishd passes a context, a director of this kind and a string buffer.
        unsafe {
            let (up, all) = count::<G>(ctx, director);
            write(out, up, all, details != 0, json != 0);
        }
    });
}

/// How many directors are healthy, and how many there are.
///
/// # Safety
/// `ctx` and `director` are valid.
unsafe fn count<G: Group>(ctx: Ctx, director: sys::VCL_BACKEND) -> (usize, usize) {
    let (mut up, mut all) = (0, 0);
    // SAFETY: as promised by the caller.
    let (group, vcl) = unsafe { (kind_of::<G>(director), vcl_of(director)) };
    if let Some(group) = group {
        group.for_each(&mut |one| {
            all += 1;
            up += usize::from(one.raw_in(vcl).is_some_and(|one| {
                // SAFETY: the group holds the director during the call.
                unsafe { sys::VRT_Healthy(ctx, one, ptr::null_mut()) != 0 }
            }));
        });
    }
    (up, all)
}

/// Write how many of all are healthy: the table column, or JSON. The details of a probe
/// (`-p`) are empty, because ghost has no probes.
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
    // SAFETY: as promised by the caller; varnishd copies the text.
    unsafe { sys::VSB_cat(out, text.as_ptr()) };
}
