//! Version 1 of `ghost.json`: hosts with weighted addresses, all in one file.
//!
//! [`Config::upgrade`] converts it to version 2: one route per host on one listener that
//! serves every socket, and one pool per address, so that an address keeps its weight.
//!
//! ```
//! use ghost_core::wire::{self, Config};
//!
//! let config = wire::decode_config(
//!     br#"{"version": 1, "vhosts": {"tea.example.com": {"backends": [
//!         {"address": "10.0.0.1", "port": 8080}]}}}"#,
//! )?;
//! let Config::V1(config) = config else { panic!() };
//! let (routing, endpoints) = config.upgrade();
//! assert_eq!(routing.routes[0].attachments[0].hostnames, ["tea.example.com"]);
//! assert!(endpoints.pools.contains_key("10.0.0.1:8080"));
//! # Ok::<(), wire::DecodeError>(())
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{decode, Endpoint, Endpoints, RequestRules, Routing};
use super::{Attachment, Backend, Listener, Route, Rule};

/// The name of the one listener.
pub const LISTENER: &str = "default";
/// The namespace of the routes; their names are the hosts.
pub const NAMESPACE: &str = "vhosts";

/// A whole configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Always 1.
    #[serde(deserialize_with = "decode::version_1")]
    pub version: u32,
    /// By host: "www.example.com" or "*.example.com".
    #[serde(default)]
    pub vhosts: BTreeMap<String, Vhost>,
    /// The backends of every other host.
    #[serde(default)]
    pub default: Option<Vhost>,
}

/// The backends of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vhost {
    /// Without any, the host gets a 503.
    pub backends: Vec<Address>,
}

/// An address with its share of the requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Address {
    /// IPv4 or IPv6 address.
    pub address: String,
    /// TCP port.
    pub port: u16,
    /// Its share of the sum of all weights.
    #[serde(default = "default_weight")]
    pub weight: u32,
}

impl Config {
    /// The same configuration in version 2.
    #[must_use]
    pub fn upgrade(&self) -> (Routing, Endpoints) {
        let default = self.default.iter().map(|vhost| ("*", vhost));
        let hosts: Vec<_> =
            self.vhosts.iter().map(|(host, vhost)| (host.as_str(), vhost)).chain(default).collect();
        let addresses = hosts.iter().flat_map(|(_, vhost)| &vhost.backends);
        let routing = Routing {
            version: 2,
            shard: 0,
            shards: 1,
            requests: RequestRules::default(),
            listeners: vec![listener()],
            routes: hosts.iter().map(|(host, vhost)| route(host, vhost)).collect(),
        };
        let endpoints = Endpoints { version: 2, pools: addresses.map(pool).collect() };
        (routing, endpoints)
    }
}

fn listener() -> Listener {
    Listener { name: LISTENER.into(), ..Listener::default() }
}

fn route(host: &str, vhost: &Vhost) -> Route {
    let host = host.to_ascii_lowercase();
    Route {
        namespace: NAMESPACE.into(),
        name: host.clone(),
        created: 0,
        attachments: vec![Attachment { listener: LISTENER.into(), hostnames: vec![host] }],
        rules: vec![Rule {
            status: vhost.backends.is_empty().then_some(503),
            backends: vhost.backends.iter().map(backend).collect(),
            ..Rule::default()
        }],
    }
}

fn backend(from: &Address) -> Backend {
    Backend {
        weight: from.weight,
        service: Some(from.address.clone()),
        port: Some(from.port),
        ..Backend::default()
    }
}

fn pool(from: &Address) -> (String, Vec<Endpoint>) {
    let endpoint = Endpoint { address: from.address.clone(), port: from.port };
    (format!("{}:{}", from.address, from.port), vec![endpoint])
}

fn default_weight() -> u32 {
    100
}
