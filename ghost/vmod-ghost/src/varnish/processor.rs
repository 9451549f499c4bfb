//! Fetch processors: the steps that varnishd pulls a response body through.

use std::ffi::{c_void, CStr};
use std::marker::PhantomData;
use std::mem;
use std::ptr::NonNull;

use super::fence::fence;
use super::fetch::workspace_of;
use super::sys;
use super::workspace;

/// What varnishd allocates for a step.
const ENTRY: usize = mem::size_of::<sys::vfp_entry>();

/// One step of a body.
pub(super) trait Step: Sized + 'static {
    /// Names the step in reports of panics.
    const ENTRY: &'static str;
    /// Why the body fails when the step does.
    const ERROR: &'static CStr;

    /// Write up to `length` bytes to `to` and set `length` to how many there are; None
    /// fails the body.
    ///
    /// # Safety
    /// varnishd calls the step: `vfc` is that of its fetch, and there is room at `to`. A step
    /// may call the next one, so it has no exclusive reference to anything of varnishd's.
    unsafe fn pull(
        &self,
        vfc: *mut sys::vfp_ctx,
        to: *mut c_void,
        length: *mut isize,
    ) -> Option<sys::vfp_status>;

    /// The body fails: the step returned None, or panicked.
    ///
    /// # Safety
    /// As for [`Step::pull`].
    unsafe fn failed(&self) {}
}

/// A kind of step. It lives as long as the VMOD.
pub(super) struct Processor<S> {
    table: sys::vfp,
    _of: PhantomData<fn() -> S>,
}

// SAFETY: varnishd only reads it.
unsafe impl<S> Sync for Processor<S> {}

impl<S: Step> Processor<S> {
    /// A processor of this name.
    pub(super) const fn new(name: &'static CStr) -> Self {
        // SAFETY: a C struct of nullable pointers.
        let empty: sys::vfp = unsafe { mem::zeroed() };
        let table = sys::vfp { name: name.as_ptr(), pull: Some(pull::<S>), ..empty };
        Self { table, _of: PhantomData }
    }

    /// Put a step, which lies on the workspace of its fetch from then on, before those that the
    /// fetch has; None, and nothing has happened, when that workspace is full.
    ///
    /// # Safety
    /// `bo` is that of a fetch that this thread works on.
    pub(super) unsafe fn add(&'static self, bo: *mut sys::busyobj, step: S) -> Option<()> {
        // SAFETY: as promised by the caller. The workspace outlives the steps of the fetch.
        unsafe {
            let workspace = workspace_of(bo);
            if !workspace::has_room(workspace, &[mem::size_of::<S>(), ENTRY]) {
                return None;
            }
            let room = workspace::room_for::<S>(workspace)?.cast::<S>();
            room.write(step);
            self.push((*bo).vfc, room)
        }
    }

    /// Put a step before those that a fetch has; None, and nothing has happened, when its
    /// workspace is full. varnishd would have the whole fetch fail then, and assert later that it
    /// has not failed.
    ///
    /// # Safety
    /// `vfc` is that of a fetch that this thread works on, and `step` is valid, and used by
    /// nothing else, until the fetch closes its steps.
    pub(super) unsafe fn push(
        &'static self,
        vfc: *mut sys::vfp_ctx,
        step: NonNull<S>,
    ) -> Option<()> {
        // SAFETY: as promised by the caller.
        unsafe {
            let workspace = (*(*vfc).resp).ws;
            if !workspace::has_room(workspace, &[ENTRY]) {
                return None;
            }
            let entry = NonNull::new(sys::VFP_Push(vfc, &raw const self.table))?;
            (*entry.as_ptr()).priv1 = step.as_ptr().cast();
        }
        Some(())
    }
}

unsafe extern "C" fn pull<S: Step>(
    vfc: *mut sys::vfp_ctx,
    entry: *mut sys::vfp_entry,
    to: *mut c_void,
    length: *mut isize,
) -> sys::vfp_status {
    // SAFETY: varnishd passes the entry that `push` made, and a place for the length.
    let step = unsafe { (*entry).priv1.cast::<S>().cast_const() };
    let pulled = fence(None, S::ENTRY, None, || {
        // SAFETY: varnishd calls; `push` promises that the step is valid.
        unsafe { step.as_ref()?.pull(vfc, to, length) }
    });
    pulled.unwrap_or_else(|| {
        // SAFETY: as above; the format takes no argument.
        unsafe {
            *length = 0;
            if let Some(step) = step.as_ref() {
                step.failed();
            }
            sys::VFP_Error(vfc, S::ERROR.as_ptr())
        }
    })
}
