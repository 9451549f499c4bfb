//! How many requests asked for an invalidation, by what became of them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde_json::{Map, Value};

/// What became of a PURGE, BAN or PURGEKEYS request.
#[derive(Clone, Copy, Debug)]
pub enum PurgeResult {
    /// It was carried out.
    Done,
    /// It was not, or not to its end: too many at once, or too much work.
    Busy,
    /// It asks for what is not supported.
    Malformed,
    /// Its client may not ask.
    Denied,
}

const RESULTS: [(PurgeResult, &str); 4] = [
    (PurgeResult::Done, "done"),
    (PurgeResult::Busy, "busy"),
    (PurgeResult::Malformed, "malformed"),
    (PurgeResult::Denied, "denied"),
];

/// Their numbers.
#[derive(Debug, Default)]
pub struct PurgeCounters([AtomicU64; RESULTS.len()]);

impl PurgeCounters {
    /// Count a request.
    pub fn count(&self, result: PurgeResult) {
        self.0[result as usize].fetch_add(1, Relaxed);
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let each = RESULTS.iter().map(|&(result, name)| {
            (name.to_owned(), Value::from(self.0[result as usize].load(Relaxed)))
        });
        Value::Object(each.collect::<Map<_, _>>())
    }
}
