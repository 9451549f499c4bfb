//! A value that one thread leaves for another one that expects it.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, Weak};

use crate::primitives::{AtomicU64, Mutex, MutexGuard, Ordering};

/// Where the value is left.
#[derive(Debug)]
pub struct Handover<T>(Mutex<Option<T>>);

impl<T> Handover<T> {
    /// Leave the value.
    pub fn leave(&self, value: T) {
        // A former one is dropped outside the lock.
        let _former = lock(&self.0).replace(value);
    }

    /// The value, once.
    pub fn take(&self) -> Option<T> {
        lock(&self.0).take()
    }
}

/// Those who expect a value, each by a number.
#[derive(Debug)]
pub struct Waiting<T> {
    next: AtomicU64,
    by_number: Mutex<BTreeMap<u64, Weak<Handover<T>>>>,
}

impl<T> Waiting<T> {
    /// No one.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self { next: AtomicU64::new(1), by_number: Mutex::new(BTreeMap::new()) }
    }

    /// Where to leave the value for the one with this number, if it still expects one.
    pub fn claim(&self, number: u64) -> Option<Arc<Handover<T>>> {
        lock(&self.by_number).get(&number)?.upgrade()
    }

    /// How many expect a value.
    pub fn count(&self) -> usize {
        lock(&self.by_number).len()
    }
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self { next: AtomicU64::new(1), by_number: Mutex::default() }
    }
}

/// One that expects a value, until this is dropped. What is left later than that goes away with
/// the last reference to where it was left.
#[derive(Debug)]
pub struct Expected<T, W: Borrow<Waiting<T>>> {
    waiting: W,
    number: u64,
    handover: Arc<Handover<T>>,
}

impl<T, W: Borrow<Waiting<T>>> Expected<T, W> {
    /// Expect a value from now on.
    pub fn new(waiting: W) -> Self {
        let all = waiting.borrow();
        let number = all.next.fetch_add(1, Ordering::Relaxed);
        let handover = Arc::new(Handover(Mutex::new(None)));
        lock(&all.by_number).insert(number, Arc::downgrade(&handover));
        Self { waiting, number, handover }
    }

    /// What the other thread needs to know.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The value, once, if it has been left.
    pub fn take(&self) -> Option<T> {
        self.handover.take()
    }
}

impl<T, W: Borrow<Waiting<T>>> Drop for Expected<T, W> {
    fn drop(&mut self) {
        lock(&self.waiting.borrow().by_number).remove(&self.number);
    }
}

/// A panic while the lock was held left the value as it was before or after a change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
