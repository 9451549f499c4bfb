//! What many threads read without a lock, while one at a time changes it.

use std::sync::{Arc, PoisonError};

use crate::primitives::{Mutex, MutexGuard, Swap, Swapped};

/// Something that is served, and the state that it is made from. There is either both or
/// neither, but for a moment.
#[derive(Debug)]
pub struct Served<W, S> {
    state: Mutex<Option<W>>,
    current: Swap<S>,
}

impl<W, S> Served<W, S> {
    /// Nothing is served.
    #[must_use]
    pub fn nothing() -> Self {
        Self { state: Mutex::new(None), current: Swap::empty() }
    }

    /// What is served now.
    pub fn current(&self) -> Swapped<S> {
        self.current.load()
    }

    /// Begin with this state. Nothing is served until the first change.
    pub fn start(&self, state: W) {
        // A former one is dropped outside the lock.
        let _former = self.lock().replace(state);
    }

    /// Serve nothing.
    pub fn stop(&self) {
        // In this order: a change that holds the lock serves something once more, and one that
        // comes later finds no state.
        let state = self.lock().take();
        self.current.swap(None);
        drop(state);
    }

    /// Change the state and serve what is made of it: `change` gets the state, and a function
    /// that serves something in place of what it returns. None if nothing has been started.
    pub fn change<R>(
        &self,
        change: impl FnOnce(&mut W, &dyn Fn(S) -> Option<Arc<S>>) -> R,
    ) -> Option<R> {
        let mut state = self.lock();
        let serve = |next| self.current.swap(Some(Arc::new(next)));
        state.as_mut().map(|state| change(state, &serve))
    }

    /// A panic in a change left the state as the change left it, and what is served complete.
    fn lock(&self) -> MutexGuard<'_, Option<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
