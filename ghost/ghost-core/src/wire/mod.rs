//! The wire format: routing configuration as JSON.
//!
//! In:  the bytes of a shard file or of `ghost.json`.
//! Out: plain data, or a [`DecodeError`] that names the field at fault.
//!
//! Decoding is strict: an unknown field, a wrong type or a wrong version is an error. An
//! absent field has its default. The types implement [`serde::Serialize`] too, so that a
//! program can produce the format. In Varnish Gateway the Python module
//! `varnish_gateway.ir.wire` does.
//!
//! ```
//! use ghost_core::wire::{self, Routing};
//!
//! let routing: Routing = wire::decode(
//!     br#"{"version": 2, "listeners": [{"name": "web", "socket": "http-80", "port": 80}],
//!         "routes": [{"namespace": "shop", "name": "tea", "attachments": [{"listener": "web"}],
//!                     "rules": [{"backends": [{"service": "shop/tea", "port": 80}]}]}]}"#,
//! )?;
//! assert_eq!(routing.listeners[0].hostname, "*");
//! assert_eq!(routing.routes[0].rules[0].backends[0].weight, 1);
//!
//! let error = wire::decode::<Routing>(
//!     br#"{"version": 2, "routes": [{"namespace": "shop", "name": "tea", "attachments": [],
//!                                    "rules": [{"mirror": {}}]}]}"#,
//! ).unwrap_err();
//! assert_eq!(error.path, "routes[0].rules[0].mirror");
//! # Ok::<(), wire::DecodeError>(())
//! ```

mod cache;
mod decode;
mod filters;
mod invalidation;
mod requests;
mod routes;
mod shares;
mod timing;
pub mod v1;

pub use cache::{
    Bypass, BypassHeader, CacheKey, CachePolicy, CacheStatus, QueryParameters, RequestCookies,
    Revalidation, SetCookie, StatusTtl, TagHeader,
};
pub use decode::{decode, decode_config, Config, DecodeError};
pub use filters::{
    Cors, Filters, Header, HeaderModifier, PathModifier, PathModifierType, Redirect, Rewrite,
    Scheme,
};
pub use invalidation::{
    InvalidatedMatches, InvalidatedPrefix, InvalidatedUri, Invalidation, InvalidationMode,
    InvalidationTarget,
};
pub use requests::{RejectedText, RequestRules};
pub use routes::{
    Attachment, Backend, Listener, Match, PathMatch, PathMatchType, Route, Rule, ValueMatch,
    ValueMatchType,
};
pub use shares::WorkerShares;
pub use timing::{Retry, Timeouts};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One shard of the routes of a Gateway; shard 0 also carries the listeners.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Routing {
    /// Always 2.
    #[serde(deserialize_with = "decode::version_2")]
    pub version: u32,
    /// Which shard this is.
    #[serde(default)]
    pub shard: u32,
    /// How many shards there are.
    #[serde(default = "one")]
    pub shards: u32,
    /// What the Gateway does with every request (in shard 0 only).
    #[serde(default)]
    pub requests: RequestRules,
    /// Every listener of the Gateway (in shard 0 only).
    #[serde(default)]
    pub listeners: Vec<Listener>,
    /// The routes of this shard.
    #[serde(default)]
    pub routes: Vec<Route>,
}

/// An address that serves requests of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Endpoint {
    /// IPv4 or IPv6 address, without brackets.
    pub address: String,
    /// TCP port.
    pub port: u16,
}

/// Pools by name (`namespace/name:port`). Requests for an empty or absent pool get a 503.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Endpoints {
    /// Always 2.
    #[serde(deserialize_with = "decode::version_2")]
    pub version: u32,
    /// The endpoints of each pool.
    #[serde(default)]
    pub pools: BTreeMap<String, Vec<Endpoint>>,
}

/// `ghost.json`: the shard files of the current configuration, named by their content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Manifest {
    /// Always 2.
    #[serde(deserialize_with = "decode::version_2")]
    pub version: u32,
    /// Identifies this configuration; reload and readiness report it.
    pub id: String,
    /// Files that hold a [`Routing`], beside the manifest.
    #[serde(default)]
    pub routing: Vec<String>,
    /// Files that hold [`Endpoints`], beside the manifest.
    #[serde(default)]
    pub endpoints: Vec<String>,
}

fn one() -> u32 {
    1
}
