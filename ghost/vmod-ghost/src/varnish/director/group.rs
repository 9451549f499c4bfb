//! Directors that stand for others: their health, and what `backend.list` shows of them, in
//! the form that varnishd's own directors use.

use std::ffi::{c_int, CString};
use std::ptr;

use super::{kind_of, vcl_of, Director, Kind};
use crate::varnish::fence::fence;
use crate::varnish::sys::{self, Ctx};

/// Tells whether a director is healthy.
pub type Ask<'a> = &'a dyn Fn(&Director) -> bool;

/// A director that stands for others.
pub trait Group: Kind {
    /// Whether one of them is healthy. A request asks.
    fn is_healthy(&self, ask: Ask<'_>) -> bool;

    /// How many of them can be used, and how many there are.
    ///
    /// varnishd asks for that under the lock that it needs to remove a director, and goes down
    /// when the same thread locks it twice. So this must not hold a director that a reload may
    /// release meanwhile: it might drop the last reference. Every change of a VCL's directors
    /// waits for the lock too, so this must not take longer for a larger pool.
    fn tally(&self, ask: Ask<'_>) -> Tally;
}

/// How many directors a group stands for.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    /// How many of them can be used.
    pub usable: usize,
    /// How many there are.
    pub all: usize,
}

/// The callback of the same name: a group with one healthy director is healthy.
pub(in crate::varnish) unsafe extern "C" fn healthy<G: Group>(
    ctx: Ctx,
    director: sys::VCL_BACKEND,
    _: *mut sys::VCL_TIME,
) -> sys::VCL_BOOL {
    // SAFETY: varnishd passes a context, and a director of this kind.
    let (task, group) = unsafe { (ctx.as_ref(), kind_of::<G>(director)) };
    fence(task, "healthy", 0, || {
        // SAFETY: as above.
        let ask = |one: &Director| unsafe { is_healthy(ctx, director, one) };
        // Without a request or a fetch it is a command that asks, perhaps under the lock.
        let by_request = task.is_some_and(|ctx| !(ctx.req.is_null() && ctx.bo.is_null()));
        sys::VCL_BOOL::from(group.is_some_and(|group| {
            if by_request {
                group.is_healthy(&ask)
            } else {
                group.tally(&ask).usable > 0
            }
        }))
    })
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
            let ask = |one: &Director| is_healthy(ctx, director, one);
            let tally = kind_of::<G>(director).map(|group| group.tally(&ask));
            write(out, tally.unwrap_or_default(), details != 0, json != 0);
        }
    });
}

/// Whether `one`, which the group `of` stands for, is healthy.
///
/// # Safety
/// `ctx` and `of` are valid.
unsafe fn is_healthy(ctx: Ctx, of: sys::VCL_BACKEND, one: &Director) -> bool {
    // SAFETY: as promised by the caller; the group holds the director during the call.
    unsafe {
        let one = one.raw_in(vcl_of(of));
        one.is_some_and(|one| sys::VRT_Healthy(ctx, one, ptr::null_mut()) != 0)
    }
}

/// Write how many of all can be used: the table column, or JSON. The details of a probe
/// (`-p`) are empty, because ghost has no probes.
///
/// # Safety
/// `out` is an open string buffer.
unsafe fn write(out: *mut sys::vsb, tally: Tally, details: bool, json: bool) {
    let Tally { usable, all } = tally;
    let health = if usable > 0 { "healthy" } else { "sick" };
    let text = match (json, details) {
        (true, true) => "{},\n".to_owned(),
        (true, false) => format!("[{usable}, {all}, \"{health}\"]"),
        (false, true) => return,
        (false, false) => format!("{usable}/{all}\t{health}"),
    };
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: as promised by the caller; varnishd copies the text.
    unsafe { sys::VSB_cat(out, text.as_ptr()) };
}
