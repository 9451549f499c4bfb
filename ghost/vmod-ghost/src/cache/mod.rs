//! The cache: carries out what `ghost_core::cache` decides.
//!
//! | Subroutine | Function | What it does |
//! |---|---|---|
//! | `vcl_recv` | [`lookup`](lookup::lookup) | whether the cache may answer the request |
//! | `vcl_hash` | [`hash`](key::hash) | the whole key; what decides in the lookup ([`task`]) |
//! | `vcl_miss` | [`miss`](lookup::miss) | why the request is forwarded, and whether it may be |
//! | `vcl_backend_fetch` | [`prepare`](fetch::prepare) | the request that the origin gets |
//! | `vcl_backend_response` | [`store`](store::store) | whether the response is stored, and for how long |
//! | `vcl_backend_error` | [`serve_stale`](stale::serve_stale) | a stale response in place of the error |
//! | `vcl_synth` | [`is_revived`](stale::is_revived) | whether to look that response up |
//! | `vcl_deliver` | [`deliver`](deliver::deliver) | 304, Cache-Status, what clients don't see |
//!
//! An object that becomes visible enters the index of what clients requested, in which
//! [invalidations](invalidation) look.
//!
//! A request without a policy costs one test in each of them.

mod culprits;
mod deliver;
mod fetch;
mod headers;
mod invalidation;
mod key;
mod large;
mod lookup;
mod policy;
mod stale;
mod store;
mod stores;
mod task;

pub use deliver::deliver;
pub use fetch::{prepare, wants_only_cached};
pub use invalidation::{
    arrive, check as check_purge, inspect, respond as purge, respond_to_client,
    usage as index_usage,
};
pub use key::{hash, is_keyed};
pub use lookup::{lookup, miss};
pub use policy::{begin, Cached, ListenerPolicies, Prepared};
pub use stale::{claim_waiting, conceal, is_revived, serve_stale};
pub use store::{is_decided, store};
pub use stores::size_of_stores;
