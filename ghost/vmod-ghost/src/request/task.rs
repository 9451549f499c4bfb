//! What ghost remembers about a client's request.

use std::cell::OnceCell;
use std::sync::Arc;

use ghost_core::shares::{Exhausted, HeldRejection, HeldWorkers};
use ghost_core::Steps;

use super::body::Missing;
use super::purging::Purging;
use super::websocket::Expected;
use crate::cache::Cached;
use crate::config::{CacheCounters, CacheResult, Entry};
use crate::varnish::{SendTimeouts, Slot, Task};

/// What `recv()` found for a request.
#[derive(Default)]
pub enum Outcome {
    /// Nothing, or `recv()` was not called yet.
    #[default]
    Unrouted,
    /// A rule, by this match of it.
    Routed(Arc<Entry>, usize),
    /// A rule, whose CORS answers the request.
    Preflight(Arc<Entry>),
    /// A rule, but the request has passed this gateway too often.
    Loop(Arc<Entry>),
    /// The request asks for an invalidation, in the namespace of this rule.
    Purge(Arc<Entry>),
    /// The request is for ghost itself.
    Admin,
}

impl Outcome {
    /// The rule, if the request has one, whatever becomes of it.
    pub fn entry(&self) -> Option<&Arc<Entry>> {
        match self {
            Self::Routed(entry, _)
            | Self::Preflight(entry)
            | Self::Loop(entry)
            | Self::Purge(entry) => Some(entry),
            Self::Unrouted | Self::Admin => None,
        }
    }
}

/// About a client's request.
#[derive(Default)]
pub struct ClientTask {
    /// What `recv()` found.
    pub outcome: Outcome,
    /// Whether the client speaks TLS.
    pub tls: bool,
    /// Whether the client may invalidate, once it has asked. What VCL changes does not count.
    pub purging: Option<Purging>,
    /// The upgrade that the client waits for.
    pub upgrade: Option<Expected>,
    /// The worker that handles the request, and the one for its fetch, in the share of its
    /// route.
    pub workers: Option<HeldWorkers>,
    /// Why it got none.
    pub rejected: Option<Exhausted>,
    /// The threads that it needs for that response, until there is one.
    pub rejection: Option<HeldRejection>,
    /// Why its body has not arrived, if varnishd keeps it. A restart does not read it again.
    pub missing: Option<Missing>,
    /// Whether the response of `vcl_synth` in place of a hit has been counted.
    pub counted: bool,
    /// For how long varnishd waited for the client before the request was rejected.
    pub dismissed: Option<SendTimeouts>,
    /// The cache policy that it is under.
    pub cached: Option<Cached>,
    /// What the cache did with it, once its response was ready to be sent; where that counts.
    pub result: OnceCell<(CacheResult, Arc<CacheCounters>)>,
    /// A digest of the URL, Host and method that `recv()` left.
    pub digest: u64,
    /// What its rule and its cache policy may still take. A restart gives nothing back, but for
    /// the one that ghost makes itself for a stale response.
    pub steps: Steps,
}

impl Task for ClientTask {
    fn slot() -> &'static Slot<Self> {
        static SLOT: Slot<ClientTask> = Slot::new(c"ghost client task");
        &SLOT
    }

    fn on_end(&mut self, sent: u64) {
        if let Some((result, counters)) = self.result.get() {
            counters.count_bytes(*result, sent);
        }
    }
}

impl ClientTask {
    /// Whether the request is for ghost itself. User VCL does not get it.
    pub fn is_admin(&self) -> bool {
        matches!(self.outcome, Outcome::Admin | Outcome::Purge(_))
    }

    /// The response is ready to be sent. Count what the cache did, if the request is under a
    /// policy.
    pub fn count_result(&self, result: CacheResult) {
        if let (Outcome::Routed(entry, _), Some(cached)) = (&self.outcome, &self.cached) {
            let counters = entry.target().service.counters.cache.of(&cached.policy.name);
            counters.count(result);
            // Set before only where VCL calls deliver() twice.
            let _ = self.result.set((result, counters));
        }
    }

    /// What the cache key says about the rule and the scheme.
    pub fn cache_key(&self) -> (&str, &'static str) {
        let rule = match &self.outcome {
            Outcome::Routed(entry, match_index) => entry.cache_key(*match_index),
            Outcome::Preflight(_) => "preflight",
            Outcome::Loop(_) => "loop",
            Outcome::Purge(_) => "purge",
            Outcome::Unrouted | Outcome::Admin => "",
        };
        (rule, if self.tls { "+tls" } else { "" })
    }
}
