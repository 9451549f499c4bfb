//! Which objects an invalidation concerns, and what asks for one: the data plane ([`respond`]), a
//! client with PURGE or BAN ([`respond_to_client`]), or a successful request with an unsafe method
//! ([`by_unsafe_request`]). The index also tells what is stored for a URI ([`inspect`]).

mod asked;
mod index;
mod inspection;
mod purge;
mod written;

pub use asked::respond as respond_to_client;
pub use index::{are_possible, arrive, count_unstored, may_be_invalidated, usage, Subject};
pub use inspection::respond as inspect;
pub use purge::{check, respond};
pub use written::invalidate as by_unsafe_request;
