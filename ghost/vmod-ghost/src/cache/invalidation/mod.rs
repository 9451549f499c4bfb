//! Which objects an invalidation concerns, and what asks for one: the data plane ([`respond`]), or
//! a successful request with an unsafe method ([`by_unsafe_request`]).

mod index;
mod purge;
mod written;

pub use index::{are_possible, arrive, count_unstored, may_be_invalidated, usage, Subject};
pub use purge::respond;
pub use written::invalidate as by_unsafe_request;
