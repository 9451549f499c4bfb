//! Statics that are told apart by their address.

use std::sync::atomic::AtomicU8;

/// A field that gives the struct around it an address of its own.
///
/// The compiler may place equal constants at one address. It never does so with a value that
/// has interior mutability, and it refuses to promote one to a constant: a reference to such
/// a struct for `'static` is a reference to one particular `static`.
pub(super) struct Identity(#[allow(dead_code)] AtomicU8);

impl Identity {
    /// A new one.
    pub(super) const fn new() -> Self {
        Self(AtomicU8::new(0))
    }
}
