//! What the cache did for a route, by policy.
//!
//! A request reads the counters of its policy without a lock. The first one of a route under a
//! policy makes them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use foldhash::fast::RandomState;
use ghost_core::cache::NotStoredReason;
use ghost_sync::Served;
use serde_json::{json, Map, Value};

/// What the cache did with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheResult {
    /// It answered with a fresh response.
    Hit,
    /// It answered with a stale one.
    Stale,
    /// The response is that of another request, for which this one waited.
    Coalesced,
    /// The origin was asked.
    Miss,
    /// The origin was asked, because an earlier response was not stored.
    HitForMiss,
    /// The origin was asked for this request alone.
    Pass,
}

impl CacheResult {
    const ALL: [Self; 6] =
        [Self::Hit, Self::Stale, Self::Coalesced, Self::Miss, Self::HitForMiss, Self::Pass];

    /// One word, which never changes.
    fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Stale => "stale",
            Self::Coalesced => "coalesced",
            Self::Miss => "miss",
            Self::HitForMiss => "hit-for-miss",
            Self::Pass => "pass",
        }
    }

    /// Whether the origin sent no response for this request.
    fn is_from_cache(self) -> bool {
        matches!(self, Self::Hit | Self::Stale | Self::Coalesced)
    }
}

/// What the cache did for a route under one policy.
#[derive(Debug, Default)]
pub struct CacheCounters {
    requests: [AtomicU64; CacheResult::ALL.len()],
    stored: AtomicU64,
    revalidated: AtomicU64,
    uncacheable: [AtomicU64; NotStoredReason::ALL.len()],
    cache_bytes: AtomicU64,
    origin_bytes: AtomicU64,
}

impl CacheCounters {
    /// Count a request whose response was ready to be sent.
    pub fn count(&self, result: CacheResult) {
        self.requests[result as usize].fetch_add(1, Relaxed);
    }

    /// Count the bytes of a body that a client got.
    pub fn count_bytes(&self, result: CacheResult, bytes: u64) {
        let of = if result.is_from_cache() { &self.cache_bytes } else { &self.origin_bytes };
        of.fetch_add(bytes, Relaxed);
    }

    /// Count a response that the cache stores, or a stored one that its origin has confirmed.
    pub fn count_stored(&self, confirmed: bool) {
        let of = if confirmed { &self.revalidated } else { &self.stored };
        of.fetch_add(1, Relaxed);
    }

    /// Count a response that the cache doesn't store.
    pub fn count_uncacheable(&self, reason: NotStoredReason) {
        self.uncacheable[reason as usize].fetch_add(1, Relaxed);
    }

    /// As JSON, with the reasons that have occurred.
    fn to_json(&self) -> Value {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        let requests: Map<String, Value> = CacheResult::ALL
            .iter()
            .zip(&self.requests)
            .map(|(result, count)| (result.name().to_owned(), read(count).into()))
            .collect();
        let uncacheable: Map<String, Value> = NotStoredReason::ALL
            .iter()
            .zip(&self.uncacheable)
            .filter(|(_, count)| read(count) > 0)
            .map(|(reason, count)| (reason.name().to_owned(), read(count).into()))
            .collect();
        json!({
            "requests": requests,
            "stored": read(&self.stored),
            "revalidated": read(&self.revalidated),
            "uncacheable": uncacheable,
            "bytes": { "cache": read(&self.cache_bytes), "origin": read(&self.origin_bytes) },
        })
    }
}

type ByName = HashMap<Box<str>, Arc<CacheCounters>, RandomState>;

/// The counters of a route, by the name of the policy.
#[derive(Debug)]
pub struct PolicyCounters(Served<ByName, ByName>);

impl Default for PolicyCounters {
    fn default() -> Self {
        let counters = Served::nothing();
        counters.start(ByName::default());
        Self(counters)
    }
}

impl PolicyCounters {
    /// Those of a policy.
    pub fn of(&self, policy: &str) -> Arc<CacheCounters> {
        let known = self.0.current();
        let counters = known.as_ref().and_then(|known| known.get(policy));
        counters.map_or_else(|| self.begin(policy), Arc::clone)
    }

    #[cold]
    fn begin(&self, policy: &str) -> Arc<CacheCounters> {
        let begun = self.0.change(|all, serve| {
            // Another request may have been faster.
            let counters = Arc::clone(all.entry(policy.into()).or_default());
            serve(all.clone());
            counters
        });
        begun.unwrap_or_default()
    }

    /// Forget the policies that no longer apply.
    pub fn retain(&self, applies: impl Fn(&str) -> bool) {
        self.0.change(|all, serve| {
            let before = all.len();
            all.retain(|policy, _| applies(policy));
            if all.len() < before {
                serve(all.clone());
            }
        });
    }

    /// As JSON, by policy.
    pub fn to_json(&self) -> Value {
        let known = self.0.current();
        let all = known.iter().flat_map(|known| known.iter());
        Value::Object(
            all.map(|(policy, counters)| (policy.to_string(), counters.to_json())).collect(),
        )
    }
}
