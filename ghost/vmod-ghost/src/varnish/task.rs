//! Memory for the length of a task.
//!
//! A client task and the fetch that it starts are two tasks: they share nothing but
//! `req.backend_hint`, which becomes `bereq.backend`. Values live on the task's workspace;
//! varnishd has them dropped when the task ends or is rolled back, before it frees the
//! workspace. Another thread may go on with a task between two calls.

use std::cell::{Ref, RefCell, RefMut};
use std::ffi::{c_void, CStr};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::director::held::{Backend, Held, Returned};
use super::fence::fence;
use super::identity::Identity;
use super::sys::{self, Ctx};
use super::workspace;

/// The key under which a task keeps a `T`.
pub struct Slot<T> {
    methods: sys::vmod_priv_methods,
    _identity: Identity,
    _of: PhantomData<fn() -> T>,
}

// SAFETY: varnishd and ghost only read it.
unsafe impl<T> Sync for Slot<T> {}

impl<T: Task> Slot<T> {
    /// A slot, with a name for panic dumps.
    pub const fn new(name: &'static CStr) -> Self {
        let methods = sys::vmod_priv_methods {
            magic: sys::VMOD_PRIV_METHODS_MAGIC,
            type_: name.as_ptr(),
            fini: Some(forget::<T>),
        };
        Self { methods, _identity: Identity::new(), _of: PhantomData }
    }

    fn key(&'static self) -> *const c_void {
        ptr::from_ref(self).cast()
    }
}

/// Something that ghost remembers for a task.
pub trait Task: Default + Send + 'static {
    /// Where a task keeps it, a static.
    fn slot() -> &'static Slot<Self>;

    /// The task ends, or is rolled back. A client got so many bytes of a body, without those
    /// that ESI included: they are part of the page.
    fn on_end(&mut self, _sent: u64) {}
}

/// A `T` that a task keeps, and the director that ghost returned in this task.
#[derive(Default)]
pub struct Memory<T> {
    value: RefCell<T>,
    returned: RefCell<Option<Held>>,
}

impl<T> Memory<T> {
    /// Read it.
    pub fn get(&self) -> Ref<'_, T> {
        self.value.borrow()
    }

    /// Change it.
    pub fn get_mut(&self) -> RefMut<'_, T> {
        self.value.borrow_mut()
    }

    /// Return a director to varnishd. The task keeps its owner until it returns another one.
    pub fn give(&self, held: Held) -> Returned<'_> {
        Returned::held(held, &self.returned)
    }

    /// Whether this is the director that ghost returned.
    pub fn gave(&self, backend: Backend<'_>) -> bool {
        self.returned.borrow().as_ref().is_some_and(|held| held.is(backend))
    }
}

/// The memory of the task of `ctx`, from now on if there was none; None when the workspace
/// is full.
pub(super) fn remember<T: Task>(ctx: &sys::vrt_ctx) -> Option<&Memory<T>> {
    let slot = T::slot();
    // SAFETY: varnishd passed the context and runs a task with it. The slot's address is its
    // own, so only this function, for the same T, fills what varnishd keeps under that key.
    unsafe {
        let kept = NonNull::new(sys::VRT_priv_task(ctx, slot.key()))?.as_ptr();
        if (*kept).priv_.is_null() {
            let room = workspace::room_for::<Memory<T>>(ctx.ws)?.cast::<Memory<T>>();
            room.write(Memory::default());
            (*kept).priv_ = room.as_ptr().cast();
            (*kept).methods = &raw const slot.methods;
        }
        (*kept).priv_.cast::<Memory<T>>().as_ref()
    }
}

/// The memory of the task of `ctx`, if there is any.
pub(super) fn recall<T: Task>(ctx: &sys::vrt_ctx) -> Option<&Memory<T>> {
    // SAFETY: as for `remember`.
    unsafe {
        let kept = sys::VRT_priv_task_get(ctx, T::slot().key()).as_ref()?;
        kept.priv_.cast::<Memory<T>>().as_ref()
    }
}

unsafe extern "C" fn forget<T: Task>(ctx: Ctx, memory: *mut c_void) {
    fence(None, "task", (), || {
        // SAFETY: varnishd calls this once for what `remember` wrote, with the context of the
        // task.
        unsafe {
            let memory = memory.cast::<Memory<T>>();
            (*memory).get_mut().on_end(sent(&*ctx));
            ptr::drop_in_place(memory);
        }
    });
}

/// How many bytes of a body the client of a task got.
///
/// # Safety
/// The task ends: varnishd has delivered the response, if there was one.
unsafe fn sent(ctx: &sys::vrt_ctx) -> u64 {
    // SAFETY: null in a fetch, or the request of this thread.
    let req = unsafe { ctx.req.as_ref() };
    req.filter(|req| req.esi_level == 0).map_or(0, |req| req.acct.resp_bodybytes)
}
