//! Which objects an invalidation concerns, and what asks for one: the data plane ([`respond`]), a
//! client with PURGE or BAN ([`respond_to_client`]), or a successful request with an unsafe method
//! ([`by_unsafe_request`]).

mod asked;
mod index;
mod purge;
mod shapes;
mod written;

pub use asked::respond as respond_to_client;
pub use index::{arrive, count_unstored, may_be_invalidated, usage, Subject};
pub use purge::respond;
pub use written::invalidate as by_unsafe_request;
