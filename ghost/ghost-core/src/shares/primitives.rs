//! Atomics: those of the standard library, or those of the model checker in its tests.

#[cfg(all(loom, test))]
pub(super) use loom::sync::atomic::{AtomicU32, Ordering};

#[cfg(not(all(loom, test)))]
pub(super) use std::sync::atomic::{AtomicU32, Ordering};
