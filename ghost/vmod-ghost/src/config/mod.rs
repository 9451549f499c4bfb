//! The configuration: read from files, shared between VCLs, and served by directors.
//!
//! [`store`] and [`shard`] hold what the process has read. [`instance`] is ghost in one VCL;
//! [`directors`] builds the directors of that VCL, of the kinds in [`pool`] and [`rule`].

mod cache_counters;
mod cache_key;
mod counters;
mod directors;
mod histogram;
mod instance;
mod overload;
mod pool;
mod purge_counters;
mod retirement;
mod rule;
mod shard;
mod store;

pub use cache_counters::{CacheCounters, CacheResult};
pub use counters::{Counters, Source};
pub use histogram::Histogram;
pub use instance::{on_own_thread, Instance, Snapshot};
pub use overload::reject;
pub use purge_counters::PurgeResult;
pub use rule::{Entry, RuleDirector, Target};
pub use shard::Requests;
pub use store::lock;
