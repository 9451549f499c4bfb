//! The wire format, as `varnish_gateway.ir.wire` defines it.
//!
//! In:  the bytes of a shard file or of `ghost.json`.
//! Out: plain data, or a [`DecodeError`] that names the field at fault.
//!
//! Decoding is strict: an unknown field, a wrong type or a wrong version is an error.
//! An absent field has its default.

mod decode;
mod filters;
mod routes;
mod timing;
pub mod v1;

pub use decode::{decode, decode_config, Config, DecodeError};
pub use filters::{
    Cors, Filters, Header, HeaderModifier, PathModifier, PathModifierType, Redirect, Rewrite,
    Scheme,
};
pub use routes::{
    Attachment, Backend, Listener, Match, PathMatch, PathMatchType, Route, Rule, ValueMatch,
    ValueMatchType,
};
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
    /// Every listener of the Gateway (in shard 0 only).
    #[serde(default)]
    pub listeners: Vec<Listener>,
    /// The routes of this shard.
    #[serde(default)]
    pub routes: Vec<Route>,
}

/// An address that serves a pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Endpoint {
    /// IPv4 or IPv6 address, without brackets.
    pub address: String,
    /// TCP port.
    pub port: u16,
}

/// Pools by their name (`namespace/name:port`). An empty or absent pool answers 503.
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

/// `ghost.json`: the shard files that are in force, named by their content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Manifest {
    /// Always 2.
    #[serde(deserialize_with = "decode::version_2")]
    pub version: u32,
    /// Names this configuration; reload and readiness report it.
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
