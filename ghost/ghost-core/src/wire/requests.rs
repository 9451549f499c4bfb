//! What a Gateway does with every request, whatever its route.

use serde::{Deserialize, Serialize};

use super::WorkerShares;

/// Whom the gateway believes about clients, which paths it accepts, and what requests may hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RequestRules {
    /// How many proxies are in front of the gateway.
    pub trusted_hops: Option<usize>,
    /// The addresses of proxies in front of the gateway, such as `10.0.0.0/8`.
    pub trusted_ranges: Vec<String>,
    /// Whether repeated slashes of a path become one.
    pub merge_slashes: bool,
    /// What no path may contain.
    pub reject: Vec<RejectedText>,
    /// What the requests of one namespace, route or backend may hold.
    pub shares: Option<WorkerShares>,
    /// The addresses of clients whose PURGE, BAN and PURGEKEYS requests are carried out. Without
    /// any they are requests like others.
    pub purge_ranges: Vec<String>,
}

/// A text that backends may read differently than the router does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RejectedText {
    /// An encoded slash.
    #[serde(rename = "%2F")]
    EncodedSlash,
    /// An encoded backslash.
    #[serde(rename = "%5C")]
    EncodedBackslash,
    /// A parent segment with a parameter.
    #[serde(rename = "..;")]
    ParentWithParameter,
}
