//! Shards of configuration: read and compiled once, shared between VCLs.
//!
//! In:  the configuration path, and what was loaded before.
//! Out: [`Loaded`]. A shard with the same file name as before is the same value as before,
//!      and so is every unchanged route of a changed shard.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use ghost_core::forwarding::{Ranges, TrustedProxies};
use ghost_core::shares::Limits;
use ghost_core::target::PathRules;
use ghost_core::wire::{self, Config, Listener};
use ghost_core::Route;

/// The routes of one shard, by their key.
#[derive(Default)]
pub struct RoutingShard {
    /// Its place among the shards, with their number.
    place: (u32, u32),
    /// What holds for every request; only one shard has any.
    pub requests: Arc<Requests>,
    /// The listeners; only one shard has any.
    pub listeners: Vec<Listener>,
    /// The routes.
    pub routes: HashMap<Arc<str>, Arc<Route>>,
}

/// What a Gateway does with every request.
#[derive(Default)]
pub struct Requests {
    /// Whom it believes about clients.
    pub proxies: TrustedProxies,
    /// Which paths it accepts.
    pub paths: PathRules,
    /// What each namespace, route and backend may hold.
    pub limits: Limits,
    /// Whose PURGE, BAN and PURGEKEYS requests are carried out.
    pub purgers: Ranges,
}

/// The addresses of one shard of pools.
#[derive(Default)]
pub struct EndpointShard {
    /// By the pool's name.
    pub pools: BTreeMap<Arc<str>, Arc<[SocketAddr]>>,
}

/// Shards by their file name, which names their content.
pub type Shards<S> = BTreeMap<String, Arc<S>>;

/// A whole configuration.
#[derive(Default)]
pub struct Loaded {
    /// Counts configurations, from 1.
    pub generation: u64,
    /// The identifier that its author gave it.
    pub id: String,
    /// The routes.
    pub routing: Shards<RoutingShard>,
    /// The endpoints.
    pub endpoints: Shards<EndpointShard>,
}

impl Loaded {
    /// Read `path`.
    pub fn read(path: &Path, before: &Self) -> Result<Self, String> {
        let bytes = read_file(path)?;
        let config = wire::decode_config(&bytes).map_err(|error| at(path, &error))?;
        let (id, routing, endpoints) = match config {
            Config::Manifest(manifest) => read_shards(path, manifest, before)?,
            Config::V1(config) => {
                let id = digest(&bytes);
                let (routing, endpoints) = config.upgrade();
                let routing = routing_shard(routing, before).map_err(|error| at(path, &error))?;
                let endpoints = endpoint_shard(endpoints).map_err(|error| at(path, &error))?;
                let routing = Shards::from([(id.clone(), Arc::new(routing))]);
                (id.clone(), routing, Shards::from([(id, Arc::new(endpoints))]))
            }
        };
        Ok(Self { generation: before.generation + 1, id, routing, endpoints })
    }

    /// Whether both have the same content.
    pub fn equals(&self, other: &Self) -> bool {
        self.id == other.id
            && self.routing.keys().eq(other.routing.keys())
            && self.endpoints.keys().eq(other.endpoints.keys())
    }

    /// The routes that are new, different or (None) gone since `before`. Costs what changed.
    pub fn changed_routes(&self, before: &Self) -> Changes<Route> {
        changes(&before.routing, &self.routing, |shard| shard.routes.iter(), Arc::ptr_eq)
    }

    /// The pools that are new, different or (None) gone since `before`.
    pub fn changed_pools(&self, before: &Self) -> Changes<[SocketAddr]> {
        changes(&before.endpoints, &self.endpoints, |shard| shard.pools.iter(), Arc::eq)
    }

    /// How many routes there are.
    pub fn routes(&self) -> usize {
        self.routing.values().map(|shard| shard.routes.len()).sum()
    }

    /// How many pools have endpoints on record.
    pub fn pools(&self) -> usize {
        self.endpoints.values().map(|shard| shard.pools.len()).sum()
    }

    /// What holds for every request.
    pub fn requests(&self) -> Arc<Requests> {
        let first = self.routing.values().find(|shard| shard.place.0 == 0);
        first.map(|shard| Arc::clone(&shard.requests)).unwrap_or_default()
    }

    /// The names of the cache policies of listeners.
    pub fn policies_of_listeners(&self) -> HashSet<&str> {
        let policies = self.listeners().filter_map(|listener| listener.cache.as_ref());
        policies.map(|policy| policy.name.as_str()).collect()
    }

    /// Every listener.
    pub fn listeners(&self) -> impl Iterator<Item = &Listener> {
        self.routing.values().flat_map(|shard| &shard.listeners)
    }
}

/// The values that changed, by key; None for those that are gone.
pub type Changes<V> = HashMap<Arc<str>, Option<Arc<V>>>;

/// Compare only shards whose names differ: the same name is the same content.
fn changes<'s, S, V, I>(
    before: &'s Shards<S>,
    after: &'s Shards<S>,
    entries: impl Fn(&'s S) -> I,
    same: impl Fn(&Arc<V>, &Arc<V>) -> bool,
) -> Changes<V>
where
    V: ?Sized + 's,
    I: Iterator<Item = (&'s Arc<str>, &'s Arc<V>)>,
{
    let only_in = |these: &'s Shards<S>, those: &'s Shards<S>| {
        let differ = these.iter().filter(|(name, _)| !those.contains_key(*name));
        differ.flat_map(|(_, shard)| entries(shard)).collect::<HashMap<_, _>>()
    };
    let (old, new) = (only_in(before, after), only_in(after, before));
    let gone = old.keys().filter(|key| !new.contains_key(*key)).map(|key| (Arc::clone(key), None));
    let changed = new
        .iter()
        .filter(|(key, value)| !old.get(*key).is_some_and(|old| same(old, value)))
        .map(|(key, value)| (Arc::clone(key), Some(Arc::clone(value))));
    gone.chain(changed).collect()
}

type Read = (String, Shards<RoutingShard>, Shards<EndpointShard>);

fn read_shards(path: &Path, manifest: wire::Manifest, before: &Loaded) -> Result<Read, String> {
    let routing = read_all(path, manifest.routing, &before.routing, |bytes| {
        let shard = wire::decode(bytes).map_err(|error| error.to_string())?;
        routing_shard(shard, before)
    })?;
    let endpoints = read_all(path, manifest.endpoints, &before.endpoints, |bytes| {
        endpoint_shard(wire::decode(bytes).map_err(|error| error.to_string())?)
    })?;
    Ok((manifest.id, routing, endpoints))
}

/// The shards of these names; only new ones are read.
fn read_all<S>(
    manifest: &Path,
    names: Vec<String>,
    held: &Shards<S>,
    decode: impl Fn(&[u8]) -> Result<S, String>,
) -> Result<Shards<S>, String> {
    let read = |name: String| {
        if let Some(shard) = held.get(&name) {
            return Ok((name, Arc::clone(shard)));
        }
        if name.contains('/') {
            return Err(at(
                manifest,
                &format_args!("{name:?} is not the name of a file beside it"),
            ));
        }
        let path = manifest.with_file_name(&name);
        let shard = decode(&read_file(&path)?).map_err(|error| at(&path, &error))?;
        Ok((name, Arc::new(shard)))
    };
    names.into_iter().map(read).collect()
}

fn routing_shard(source: wire::Routing, before: &Loaded) -> Result<RoutingShard, String> {
    let place = (source.shard, source.shards);
    let same_place = before.routing.values().find(|shard| shard.place == place);
    let compile = |route: &wire::Route| {
        let key = format!("{}/{}", route.namespace, route.name);
        let old = same_place.and_then(|shard| shard.routes.get(key.as_str()));
        if let Some(old) = old.filter(|old| old.is_compiled_from(route)) {
            return Ok((Arc::clone(old.key()), Arc::clone(old)));
        }
        let new = Route::compile_or_replace(route).map_err(|error| error.to_string())?;
        Ok((Arc::clone(new.key()), Arc::new(new)))
    };
    let routes = source.routes.iter().map(compile).collect::<Result<_, String>>()?;
    let proxies = TrustedProxies::compile(&source.requests)
        .map_err(|error| format!("trustedRanges: {error}"))?;
    let purgers = Ranges::parse(&source.requests.purge_ranges)
        .map_err(|error| format!("purgeRanges: {error}"))?;
    let (paths, limits) = (
        PathRules::new(&source.requests),
        Limits::new(&source.requests.shares.unwrap_or_default()),
    );
    let requests = Arc::new(Requests { proxies, paths, limits, purgers });
    Ok(RoutingShard { place, requests, listeners: source.listeners, routes })
}

fn endpoint_shard(source: wire::Endpoints) -> Result<EndpointShard, String> {
    let resolve = |(name, endpoints): (String, Vec<wire::Endpoint>)| {
        let addresses = endpoints.iter().map(|endpoint| {
            let address = endpoint.address.parse::<IpAddr>();
            let address = address.map_err(|_| {
                format!("pools.{name}: {:?} is not an IP address", endpoint.address)
            })?;
            Ok(SocketAddr::new(address, endpoint.port))
        });
        let addresses = addresses.collect::<Result<Arc<[_]>, String>>()?;
        Ok((Arc::from(name), addresses))
    };
    Ok(EndpointShard {
        pools: source.pools.into_iter().map(resolve).collect::<Result<_, String>>()?,
    })
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| at(path, &error))
}

fn at(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

/// A name for the content of a file.
fn digest(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
