//! Timeouts and retries on the wire; durations are milliseconds.

use serde::{Deserialize, Serialize};

/// How long a request may take. 0 is no limit, not even varnishd's own. If neither is set,
/// varnishd's limits apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Timeouts {
    /// For the request with all its attempts.
    pub request: Option<u64>,
    /// For one attempt.
    pub backend_request: Option<u64>,
}

/// When to try a request again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Retry {
    /// Statuses to retry after, in addition to connection errors and timeouts.
    pub codes: Vec<u16>,
    /// The most retries.
    pub attempts: u32,
    /// The shortest wait before a retry.
    pub backoff: u64,
}

impl Default for Retry {
    fn default() -> Self {
        Self { codes: Vec::new(), attempts: 1, backoff: 25 }
    }
}
