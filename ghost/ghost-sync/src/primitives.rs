//! Atomics and locks: those of the standard library, or those of the model checker.

#[cfg(loom)]
pub(crate) use loom::{
    sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering},
    sync::{Mutex, MutexGuard},
};

#[cfg(not(loom))]
pub(crate) use std::sync::{
    atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering},
    Mutex, MutexGuard,
};

/// An `Arc` that is read without a lock.
#[cfg(not(loom))]
pub(crate) use arc_swap::ArcSwapOption as Swap;

/// What a thread has read from it.
#[cfg(not(loom))]
pub type Swapped<T> = arc_swap::Guard<Option<std::sync::Arc<T>>>;

/// What a thread has read from it.
#[cfg(loom)]
pub type Swapped<T> = Option<std::sync::Arc<T>>;

/// Stands for that of arc-swap, which loom can't look into: each call is one step.
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Swap<T>(Mutex<Swapped<T>>);

#[cfg(loom)]
impl<T> Swap<T> {
    pub(crate) fn empty() -> Self {
        Self(Mutex::new(None))
    }

    pub(crate) fn load(&self) -> Swapped<T> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn swap(&self, next: Swapped<T>) -> Swapped<T> {
        std::mem::replace(&mut *self.0.lock().unwrap(), next)
    }
}

/// Let other threads run for a moment.
#[cfg(loom)]
pub(crate) fn wait() {
    loom::thread::yield_now();
}

/// Let other threads run for a moment.
#[cfg(not(loom))]
pub(crate) fn wait() {
    std::thread::sleep(std::time::Duration::from_millis(1));
}
