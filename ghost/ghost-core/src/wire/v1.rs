//! Version 1 of `ghost.json`: hosts with weighted addresses, all in one file.
//!
//! It becomes version 2: one route per host on one listener that serves every socket,
//! and one pool per address, so that a weight stays with its address.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{decode, Endpoint, Endpoints, Routing};
use super::{Attachment, Backend, Listener, Match, Route, Rule, Scheme};

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
    /// Serves every other host.
    #[serde(default)]
    pub default: Option<Vhost>,
}

/// Who serves a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vhost {
    /// None at all answers 503.
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
    #[serde(default = "usual_weight")]
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
            listeners: vec![listener()],
            routes: hosts.iter().map(|(host, vhost)| route(host, vhost)).collect(),
        };
        let endpoints = Endpoints { version: 2, pools: addresses.map(pool).collect() };
        (routing, endpoints)
    }
}

fn listener() -> Listener {
    Listener {
        name: LISTENER.into(),
        socket: "*".into(),
        port: 0,
        scheme: Scheme::Http,
        hostname: "*".into(),
    }
}

fn route(host: &str, vhost: &Vhost) -> Route {
    let host = host.to_ascii_lowercase();
    Route {
        namespace: NAMESPACE.into(),
        name: host.clone(),
        created: 0,
        attachments: vec![Attachment { listener: LISTENER.into(), hostnames: vec![host] }],
        rules: vec![Rule {
            name: None,
            matches: vec![Match::default()],
            filters: None,
            redirect: None,
            status: vhost.backends.is_empty().then_some(503),
            backends: vhost.backends.iter().map(backend).collect(),
            timeouts: None,
            retry: None,
            cors: None,
        }],
    }
}

fn backend(from: &Address) -> Backend {
    Backend {
        weight: from.weight,
        service: Some(from.address.clone()),
        port: Some(from.port),
        port_name: String::new(),
        external: None,
        status: None,
        filters: None,
    }
}

fn pool(from: &Address) -> (String, Vec<Endpoint>) {
    let endpoint = Endpoint { address: from.address.clone(), port: from.port };
    (format!("{}:{}", from.address, from.port), vec![endpoint])
}

fn usual_weight() -> u32 {
    100
}
