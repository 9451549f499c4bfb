//! Time-outs and retries on the wire; durations are milliseconds.

use serde::{Deserialize, Serialize};

/// How long a request may take. 0 is no limit, not even varnishd's own; where neither is
/// said, those hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Timeouts {
    /// With all attempts.
    #[serde(default)]
    pub request: Option<u64>,
    /// One attempt.
    #[serde(default)]
    pub backend_request: Option<u64>,
}

/// How often an attempt is repeated.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Retry {
    /// After these answers, beside connection errors and time-outs.
    #[serde(default)]
    pub codes: Vec<u16>,
    /// So many times at most.
    #[serde(default = "once")]
    pub attempts: u32,
    /// So much later at least.
    #[serde(default = "a_moment")]
    pub backoff: u64,
}

fn once() -> u32 {
    1
}

fn a_moment() -> u64 {
    25
}
