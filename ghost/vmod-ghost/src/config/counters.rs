//! Per-route counters. They belong to the configuration path, not to a VCL, so they
//! survive both kinds of reload, until their route is removed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use ghost_sync::{Holders, PerMinute};
use serde_json::{json, Value};

use super::cache_counters::PolicyCounters;
use super::histogram::Histogram;

/// Upper bounds of latencies, in milliseconds.
const LATENCIES: [u32; 12] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 10_000];

/// How a response came about.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// From the cache.
    Hit,
    /// Fetched, and perhaps kept.
    Miss,
    /// Fetched for this request alone.
    Pass,
}

/// What is counted for a route.
#[derive(Debug)]
pub struct Counters {
    /// By the first digit of the status, 1 to 5.
    classes: [AtomicU64; 5],
    hits: AtomicU64,
    misses: AtomicU64,
    passes: AtomicU64,
    loops: AtomicU64,
    rejections: AtomicU64,
    latencies: Histogram<{ LATENCIES.len() }>,
    /// What the cache did.
    pub cache: PolicyCounters,
    /// How many of its requests wait for a retry now.
    pub pausing: Holders,
    /// How many requests for any route of its namespace do.
    pub pausing_in_namespace: Arc<Holders>,
    /// Validations of fresh responses that clients have forced.
    pub forced_validations: PerMinute,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            classes: Default::default(),
            hits: AtomicU64::default(),
            misses: AtomicU64::default(),
            passes: AtomicU64::default(),
            loops: AtomicU64::default(),
            rejections: AtomicU64::default(),
            latencies: Histogram::new(LATENCIES),
            cache: PolicyCounters::default(),
            pausing: Holders::default(),
            pausing_in_namespace: Arc::default(),
            forced_validations: PerMinute::default(),
        }
    }
}

impl Counters {
    /// Those of a route of a namespace, of whose requests so many wait for a retry.
    pub fn of_route_in(pausing_in_namespace: Arc<Holders>) -> Self {
        Self { pausing_in_namespace, ..Self::default() }
    }

    /// Count a response that was ready to be sent after `seconds`.
    pub fn count(&self, status: u16, source: Source, seconds: f64) {
        let class = usize::from(status / 100).clamp(1, 5) - 1;
        self.classes[class].fetch_add(1, Relaxed);
        match source {
            Source::Hit => &self.hits,
            Source::Miss => &self.misses,
            Source::Pass => &self.passes,
        }
        .fetch_add(1, Relaxed);
        self.latencies.count(seconds);
    }

    /// Count a request that was rejected because it had come back.
    pub fn count_loop(&self) {
        self.loops.fetch_add(1, Relaxed);
    }

    /// Count a request that was rejected because a share was exhausted.
    pub fn count_rejection(&self) {
        self.rejections.fetch_add(1, Relaxed);
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        let classes: serde_json::Map<String, Value> = (1..)
            .zip(&self.classes)
            .map(|(class, count)| (format!("{class}xx"), read(count).into()))
            .collect();
        let latency = self.latencies.to_json();
        json!({
            "requests": latency["count"],
            "status": classes,
            "hits": read(&self.hits),
            "misses": read(&self.misses),
            "passes": read(&self.passes),
            "loops": read(&self.loops),
            "rejections": read(&self.rejections),
            "latency": latency,
            "cache": self.cache.to_json(),
        })
    }
}
