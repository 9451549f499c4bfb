//! The life of a VCL, and what ghost keeps for it.

use std::ffi::{c_int, c_void, CString};
use std::sync::Arc;

use super::cache::{fail_incomplete, watch_objects};
use super::fence::fence;
use super::sys::{self, Ctx};
use super::vcl::Vcl;
use crate::config::Instance;

/// What ghost keeps in the memory that varnishd gives it for each VCL.
struct Kept {
    vcl: Vcl,
    instance: Arc<Instance>,
}

struct PrivMethods(sys::vmod_priv_methods);

// SAFETY: varnishd only reads it.
unsafe impl Sync for PrivMethods {}

static KEPT: PrivMethods = PrivMethods(sys::vmod_priv_methods {
    magic: sys::VMOD_PRIV_METHODS_MAGIC,
    type_: c"ghost instance".as_ptr(),
    fini: Some(forget),
});

unsafe extern "C" fn forget(_: Ctx, kept: *mut c_void) {
    fence(None, "fini", (), || {
        // SAFETY: varnishd calls this once for what the load event put there.
        drop(unsafe { Box::from_raw(kept.cast::<Kept>()) });
    });
}

/// What ghost keeps for the VCL whose memory this is.
///
/// # Safety
/// `memory` is what varnishd passed, and `'a` is not longer than the call.
unsafe fn kept<'a>(memory: *mut sys::vmod_priv) -> Option<&'a Kept> {
    // SAFETY: as promised by the caller; only the load event puts something there.
    unsafe { memory.as_ref()?.priv_.cast::<Kept>().as_ref() }
}

/// Ghost in the VCL whose memory this is.
///
/// # Safety
/// As for [`kept`].
pub(super) unsafe fn instance<'a>(memory: *mut sys::vmod_priv) -> Option<&'a Arc<Instance>> {
    // SAFETY: as promised by the caller.
    unsafe { kept(memory) }.map(|kept| &kept.instance)
}

/// varnishd loads, warms, cools or discards the VCL. Only becoming warm may fail, and
/// reports why in its own way: `VRT_fail` is not for events.
#[no_mangle]
unsafe extern "C" fn ghost_event(
    ctx: Ctx,
    memory: *mut sys::vmod_priv,
    event: sys::vcl_event_e,
) -> c_int {
    let rejected = c_int::from(event == sys::VCL_EVENT_WARM);
    fence(None, "event", rejected, || {
        // SAFETY: varnishd passes a context and the memory of this VCL, and sends one event
        // at a time.
        let (ctx, kept) = unsafe { (&*ctx, kept(memory)) };
        match (event, kept) {
            (sys::VCL_EVENT_LOAD, _) => {
                fail_incomplete();
                watch_objects();
                let vcl = Vcl::cold();
                let kept = Box::new(Kept { instance: Instance::new(vcl.clone()), vcl });
                // SAFETY: as above; the memory is empty until the VCL is loaded.
                unsafe {
                    (*memory).priv_ = Box::into_raw(kept).cast();
                    (*memory).methods = &raw const KEPT.0;
                }
            }
            (sys::VCL_EVENT_WARM, Some(kept)) => {
                kept.vcl.open(ctx);
                if let Err(reason) = kept.instance.warm() {
                    report(ctx, &reason);
                    return rejected;
                }
            }
            (_, Some(kept)) => {
                kept.instance.cool();
                kept.vcl.close();
            }
            (_, None) => {}
        }
        0
    })
}

/// Add to the response of the command that caused an event.
fn report(ctx: &sys::vrt_ctx, text: &str) {
    let text = CString::new(format!("ghost: {text}").replace('\0', " ")).unwrap_or_default();
    if !ctx.msg.is_null() {
        // SAFETY: varnishd passed an open string buffer, and copies the text.
        unsafe { sys::VSB_cat(ctx.msg, text.as_ptr()) };
    }
}
