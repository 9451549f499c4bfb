//! A value that one thread replaces, and that others fetch once they notice.

use std::sync::{Arc, PoisonError};

use crate::primitives::{AtomicU64, Mutex, MutexGuard, Ordering};

/// Something with generations, of which later ones have larger numbers.
pub trait Generation {
    /// The number of this one.
    fn generation(&self) -> u64;
}

/// The current generation of a `T`. Reading its number takes no lock.
#[derive(Debug)]
pub struct Published<T> {
    generation: AtomicU64,
    current: Mutex<Arc<T>>,
}

impl<T: Generation> Published<T> {
    /// Begin with this one.
    pub fn new(first: Arc<T>) -> Self {
        Self { generation: AtomicU64::new(first.generation()), current: Mutex::new(first) }
    }

    /// The number of the current one.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The current one.
    pub fn current(&self) -> Arc<T> {
        Arc::clone(&self.lock())
    }

    /// Replace the current one by what `next` makes of it, if it makes one; one thread at a
    /// time. Returns what is current then. A failure changes nothing.
    ///
    /// # Errors
    /// That of `next`.
    pub fn replace<E>(
        &self,
        next: impl FnOnce(&Arc<T>) -> Result<Option<Arc<T>>, E>,
    ) -> Result<Arc<T>, E> {
        let mut current = self.lock();
        if let Some(new) = next(&current)? {
            *current = new;
            // After the value: a reader that sees the number finds this one or a later one.
            self.generation.store(current.generation(), Ordering::Release);
        }
        Ok(Arc::clone(&current))
    }

    /// A panic in `next` left the value as it was.
    fn lock(&self) -> MutexGuard<'_, Arc<T>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
