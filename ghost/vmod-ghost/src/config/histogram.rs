//! Durations, counted by their length.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde_json::{json, Value};

/// How many durations there were up to each bound, and how long they were together.
#[derive(Debug)]
pub struct Histogram<const BOUNDS: usize> {
    /// In milliseconds, ascending.
    bounds: [u32; BOUNDS],
    /// Element i counts what is above bound i - 1 and up to bound i.
    counts: [AtomicU64; BOUNDS],
    /// What is above the last bound.
    longer: AtomicU64,
    micros: AtomicU64,
}

impl<const BOUNDS: usize> Histogram<BOUNDS> {
    /// Nothing is counted yet.
    pub const fn new(bounds: [u32; BOUNDS]) -> Self {
        let counts = [const { AtomicU64::new(0) }; BOUNDS];
        Self { bounds, counts, longer: AtomicU64::new(0), micros: AtomicU64::new(0) }
    }

    /// Count a duration. A negative one, of a clock that jumped, is zero.
    pub fn count(&self, seconds: f64) {
        let millis = seconds.max(0.0) * 1e3;
        let place = self.bounds.partition_point(|&bound| f64::from(bound) < millis);
        self.counts.get(place).unwrap_or(&self.longer).fetch_add(1, Relaxed);
        // Saturates for a clock that jumped.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        self.micros.fetch_add((millis * 1e3) as u64, Relaxed);
    }

    /// As JSON. Buckets are cumulative, with their bound in seconds.
    #[allow(clippy::cast_precision_loss)]
    pub fn to_json(&self) -> Value {
        let mut sum = 0;
        let bounded = self.bounds.iter().zip(&self.counts);
        let buckets: Vec<Value> = bounded
            .map(|(&bound, count)| {
                sum += count.load(Relaxed);
                json!({ "le": f64::from(bound) / 1e3, "count": sum })
            })
            .collect();
        json!({
            "sum": self.micros.load(Relaxed) as f64 / 1e6,
            "count": sum + self.longer.load(Relaxed),
            "buckets": buckets,
        })
    }
}
