//! Directors on their way into ghost and out of it.
//!
//! varnishd references a director that ghost returns only when VCL assigns it, after the
//! return. The memory of the task keeps its owner meanwhile.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::{kind_of, Director, Kind};
use crate::varnish::sys;

/// A director that varnishd refers to, or none, during a call.
#[derive(Clone, Copy)]
pub struct Backend<'c> {
    raw: sys::VCL_BACKEND,
    _call: PhantomData<&'c sys::director>,
}

impl<'c> Backend<'c> {
    /// # Safety
    /// `raw` is null or valid for `'c`.
    pub(in crate::varnish) unsafe fn new(raw: sys::VCL_BACKEND) -> Self {
        Self { raw, _call: PhantomData }
    }

    /// Whether there is one.
    pub fn is_some(self) -> bool {
        !self.raw.is_null()
    }

    /// What the director holds, if it is of this kind.
    pub fn kind<K: Kind>(self) -> Option<&'c K> {
        // SAFETY: `new` promises that it is null or valid.
        unsafe { kind_of(self.raw) }
    }
}

/// A director, and an owner that keeps it.
pub struct Held {
    director: NonNull<Director>,
    _owner: Arc<dyn Send + Sync>,
}

// SAFETY: the pointer is a shared reference to a Director, which is Sync.
unsafe impl Send for Held {}

impl Held {
    /// Hold one of the directors of `owner`.
    pub fn new<O>(owner: Arc<O>, pick: impl FnOnce(&O) -> &Director) -> Self
    where
        O: Send + Sync + 'static,
    {
        let director = NonNull::from(pick(&owner));
        Self { director, _owner: owner }
    }

    /// Whether it is this director.
    pub(in crate::varnish) fn is(&self, backend: Backend<'_>) -> bool {
        ptr::eq(self.director().raw, backend.raw)
    }

    fn director(&self) -> &Director {
        // SAFETY: it belongs to the owner, which is held and shared: nothing moves or drops
        // what `pick` found through a shared reference.
        unsafe { self.director.as_ref() }
    }
}

/// A director that ghost returns to varnishd.
pub struct Returned<'c>(Choice<'c>);

enum Choice<'c> {
    Given(Backend<'c>),
    Held(Held, &'c RefCell<Option<Held>>),
}

impl<'c> Returned<'c> {
    /// A director that varnishd itself passed.
    pub fn unchanged(backend: Backend<'c>) -> Self {
        Self(Choice::Given(backend))
    }

    /// A director of ghost's, to be kept there.
    pub(in crate::varnish) fn held(held: Held, keep: &'c RefCell<Option<Held>>) -> Self {
        Self(Choice::Held(held, keep))
    }

    /// Keep the owner, and return the director for varnishd to use in this VCL; null if it
    /// belongs to another.
    pub(in crate::varnish) fn into_raw(self, running: *const sys::vcl) -> sys::VCL_BACKEND {
        match self.0 {
            Choice::Given(backend) => backend.raw,
            Choice::Held(held, keep) => {
                let raw = held.director().raw_in(running);
                keep.replace(Some(held));
                raw.unwrap_or(ptr::null())
            }
        }
    }
}
