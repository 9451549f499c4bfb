//! The configuration: read from files, shared between VCLs, and served by directors.
//!
//! [`store`] and [`shard`] hold what the process has read. [`instance`] is ghost in one VCL;
//! [`directors`] builds the directors of that VCL, of the kinds in [`pool`] and [`rule`].

mod counters;
mod directors;
mod instance;
mod pool;
mod retirement;
mod rule;
mod shard;
mod store;

pub use counters::{Counters, Source};
pub use instance::{Instance, Snapshot};
pub use rule::{Entry, RuleDirector, Target};
pub use store::lock;
