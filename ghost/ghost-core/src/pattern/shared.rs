//! The compiled patterns of the process by their text, so that equal ones exist once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::Compiled;

/// Entries of dropped patterns are swept when their number has doubled.
#[derive(Default)]
struct Shared {
    by_source: HashMap<Box<str>, Weak<Compiled>>,
    sweep_at: usize,
}

static SHARED: Mutex<Option<Shared>> = Mutex::new(None);

/// The compiled pattern of this text, if one is in use.
pub(super) fn get(source: &str) -> Option<Arc<Compiled>> {
    lock().as_ref()?.by_source.get(source)?.upgrade()
}

/// Share a compiled pattern; returns the one that another thread shared in the meantime.
pub(super) fn insert(compiled: Compiled) -> Arc<Compiled> {
    let mut shared = lock();
    let shared = shared.get_or_insert_with(Shared::default);
    if let Some(other) = shared.by_source.get(&compiled.source).and_then(Weak::upgrade) {
        return other;
    }
    let compiled = Arc::new(compiled);
    shared.by_source.insert(compiled.source.clone(), Arc::downgrade(&compiled));
    if shared.by_source.len() > shared.sweep_at {
        shared.by_source.retain(|_, entry| entry.strong_count() > 0);
        shared.sweep_at = 2 * shared.by_source.len() + 64;
    }
    compiled
}

/// A panic while the lock was held left the map as it was before or after a change.
fn lock() -> MutexGuard<'static, Option<Shared>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}
