//! What ghost remembers for the length of a task.
//!
//! A client task and the fetch that it starts are two tasks: nothing is shared between
//! them but `req.backend_hint`, which becomes `bereq.backend`. Values live on the task's
//! workspace and go when the task ends or is rolled back, before the workspace does.

use std::ffi::{c_void, CStr};
use std::mem;
use std::ptr;

use crate::fence::fence;
use crate::sys::{self, Ctx};

/// The callbacks of a kind of task memory; its address also tells the kinds apart.
pub struct Slot(sys::vmod_priv_methods);

// SAFETY: constants only.
unsafe impl Sync for Slot {}

impl Slot {
    /// The slot of `T`, with a name for panic dumps.
    pub const fn new<T: Task>(name: &'static CStr) -> Self {
        Self(sys::vmod_priv_methods {
            magic: sys::VMOD_PRIV_METHODS_MAGIC,
            type_: name.as_ptr(),
            fini: Some(forget::<T>),
        })
    }
}

/// Something that ghost remembers for a task; no more aligned than a pointer, as workspaces are.
pub trait Task: Default + 'static {
    /// Where it is kept.
    const SLOT: &'static Slot;

    /// What is remembered for the task of `ctx`, from now on if there was nothing; None
    /// when the workspace is full.
    ///
    /// # Safety
    /// `ctx` is the context of a client or fetch task, and the result is not kept beyond
    /// the call that it came with.
    unsafe fn remember<'a>(ctx: Ctx) -> Option<&'a mut Self> {
        let key = ptr::from_ref(Self::SLOT).cast::<c_void>();
        // SAFETY: as promised by the caller; the slot is ours alone.
        unsafe {
            let slot = sys::VRT_priv_task(ctx, key).as_mut()?;
            if slot.priv_.is_null() {
                let size = u32::try_from(mem::size_of::<Self>()).ok()?;
                let room: *mut Self = sys::WS_Alloc((*ctx).ws, size).cast();
                if room.is_null() {
                    return None;
                }
                room.write(Self::default());
                slot.priv_ = room.cast();
                slot.methods = &raw const Self::SLOT.0;
            }
            slot.priv_.cast::<Self>().as_mut()
        }
    }

    /// What is remembered for the task of `ctx`, if anything.
    ///
    /// # Safety
    /// As for [`Task::remember`].
    unsafe fn recall<'a>(ctx: Ctx) -> Option<&'a mut Self> {
        let key = ptr::from_ref(Self::SLOT).cast::<c_void>();
        // SAFETY: as promised by the caller; only `remember` fills the slot.
        unsafe { sys::VRT_priv_task_get(ctx, key).as_mut()?.priv_.cast::<Self>().as_mut() }
    }
}

unsafe extern "C" fn forget<T: Task>(_: Ctx, memory: *mut c_void) {
    fence(ptr::null(), "task", (), || {
        // SAFETY: Varnish calls this once for what `remember` put there.
        unsafe { ptr::drop_in_place(memory.cast::<T>()) };
    });
}
