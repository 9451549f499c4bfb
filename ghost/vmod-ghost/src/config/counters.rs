//! Per-route counters. They belong to the configuration path, not to a VCL, so they
//! survive both kinds of reload, until their route is removed.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use serde_json::{json, Value};

/// Upper bounds of the latency histogram, in milliseconds.
const BOUNDS: [u32; 12] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 10_000];

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
#[derive(Debug, Default)]
pub struct Counters {
    /// By the first digit of the status, 1 to 5.
    classes: [AtomicU64; 5],
    hits: AtomicU64,
    misses: AtomicU64,
    passes: AtomicU64,
    loops: AtomicU64,
    /// Element i counts latencies above bound i - 1 and up to bound i; the last one, all longer.
    latencies: [AtomicU64; BOUNDS.len() + 1],
    latency_micros: AtomicU64,
    /// How many of its requests wait for a retry now.
    pub pausing: AtomicUsize,
}

impl Counters {
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
        let millis = seconds.max(0.0) * 1e3;
        let bucket = BOUNDS.partition_point(|&bound| f64::from(bound) < millis);
        self.latencies[bucket].fetch_add(1, Relaxed);
        // Saturates for a clock that jumped.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        self.latency_micros.fetch_add((millis * 1e3) as u64, Relaxed);
    }

    /// Count a request that was rejected because it had come back.
    pub fn count_loop(&self) {
        self.loops.fetch_add(1, Relaxed);
    }

    /// As JSON. Buckets are cumulative, with their bound in seconds.
    #[allow(clippy::cast_precision_loss)]
    pub fn to_json(&self) -> Value {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        let classes: serde_json::Map<String, Value> = (1..)
            .zip(&self.classes)
            .map(|(class, count)| (format!("{class}xx"), read(count).into()))
            .collect();
        let mut sum = 0;
        let buckets: Vec<Value> = BOUNDS
            .iter()
            .zip(&self.latencies)
            .map(|(&bound, count)| {
                sum += read(count);
                json!({ "le": f64::from(bound) / 1e3, "count": sum })
            })
            .collect();
        let count: u64 = self.latencies.iter().map(read).sum();
        json!({
            "requests": count,
            "status": classes,
            "hits": read(&self.hits),
            "misses": read(&self.misses),
            "passes": read(&self.passes),
            "loops": read(&self.loops),
            "latency": {
                "sum": read(&self.latency_micros) as f64 / 1e6,
                "count": count,
                "buckets": buckets,
            },
        })
    }
}
