//! varnishd's cache: keys, lookups, stored objects, and what becomes of a fetch.
//!
//! 1. *An objcore stays while the request or the fetch refers to it*, and during a lookup while
//!    varnishd holds the lock of its hash. [`Object`] lives no longer than such a call.
//!    So does a call for an object of the [index](indexed).
//! 2. *A lookup may go on in another thread*, after it has waited for a fetch. The memory that
//!    it decides with is that of its task, which lives until then; a rollback drops both.

mod entry;
mod evicted;
mod incomplete;
mod indexed;
mod key;
mod lookup;
mod object;
mod outcome;
mod size;
pub(super) mod storage;
mod store;
mod variants;

pub use evicted::unused_times;
pub(super) use incomplete::fail_incomplete;
pub(super) use indexed::watch_objects;
pub use indexed::{forms, has_index, hold_shape, index_usage, invalidate, Arrival, Fate};
pub use lookup::{Choose, Verdict};
pub use object::{Object, Times};
