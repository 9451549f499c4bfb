//! A gate to something that another thread takes away.

use std::ptr;

use crate::primitives::{wait, AtomicPtr, AtomicUsize, Ordering};

/// Leads to a `T` while it is open. Closing it waits for those that are inside.
#[derive(Debug)]
pub struct Gate<T> {
    /// Null while it is closed.
    place: AtomicPtr<T>,
    visitors: AtomicUsize,
}

impl<T> Gate<T> {
    /// A closed one.
    #[must_use]
    pub fn closed() -> Self {
        Self { place: AtomicPtr::new(ptr::null_mut()), visitors: AtomicUsize::new(0) }
    }

    /// Let visitors in.
    pub fn open(&self, place: *mut T) {
        self.place.store(place, Ordering::Release);
    }

    /// Let no more visitors in, and wait until those inside have left.
    pub fn close(&self) {
        self.place.store(ptr::null_mut(), Ordering::Release);
        // A visitor adds itself and then looks at the place; this is the other way round. Both
        // change the same number, so one of them comes second and sees what the first did:
        // either the visitor sees a closed gate, or this sees the visitor. A plain load here
        // could miss it.
        while self.visitors.fetch_add(0, Ordering::AcqRel) > 0 {
            wait();
        }
    }

    /// Keep the gate open for a moment; None if it is closed.
    pub fn visit(&self) -> Option<Visit<'_, T>> {
        self.visitors.fetch_add(1, Ordering::AcqRel);
        let mut visit = Visit { gate: self, place: ptr::null_mut() };
        visit.place = self.place.load(Ordering::Acquire);
        (!visit.place.is_null()).then_some(visit)
    }

    /// Whether it is open and leads to this place.
    pub fn leads_to(&self, place: *const T) -> bool {
        !place.is_null() && ptr::eq(self.place.load(Ordering::Acquire), place)
    }
}

/// The gate stays open while this exists.
#[derive(Debug)]
pub struct Visit<'g, T> {
    gate: &'g Gate<T>,
    place: *mut T,
}

impl<T> Visit<'_, T> {
    /// Where the gate leads to.
    #[must_use]
    pub fn place(&self) -> *mut T {
        self.place
    }
}

impl<T> Drop for Visit<'_, T> {
    fn drop(&mut self) {
        self.gate.visitors.fetch_sub(1, Ordering::Release);
    }
}
