//! What ghost reads from clients, from the TLS terminator and from the control plane, with any
//! bytes.
//!
//! In:  bytes that libFuzzer chooses, guided by the code that they reach.
//! Out: a panic where ghost panics, or breaks a rule that holds for every input.
//!
//! varnishd parses requests and the PROXY protocol. ghost gets values from it, in which any
//! byte may be: these are what the targets vary. `tests/corpus.rs` replays the corpus.
#![forbid(unsafe_code)]

mod cache;
mod requests;
mod routing;

pub use cache::cache;
pub use requests::{headers, host, path};
pub use routing::{server_name, wire};
