//! The shards that a router was filled from.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use ghost_core::wire;
use ghost_core::{Route, RouteError, Router};

/// A router, and which shard each of its routes came from.
#[derive(Default)]
pub(crate) struct Table {
    router: Router<Arc<wire::Rule>>,
    keys_by_shard: BTreeMap<u32, Vec<Arc<str>>>,
}

impl Table {
    pub(crate) fn router(&self) -> &Router<Arc<wire::Rule>> {
        &self.router
    }

    /// Put `routing` in the place of the shard of its number; nothing changes on an error.
    pub(crate) fn update(&mut self, routing: &wire::Routing) -> Result<(), RouteError> {
        let routes = routing
            .routes
            .iter()
            .map(|source| Ok((source, Arc::new(Route::compile(source)?))))
            .collect::<Result<Vec<_>, RouteError>>()?;
        let keys: Vec<Arc<str>> = routes.iter().map(|(_, route)| Arc::clone(route.key())).collect();
        let kept: HashSet<&Arc<str>> = keys.iter().collect();
        let old = self.keys_by_shard.remove(&routing.shard).unwrap_or_default();
        for gone in old.iter().filter(|key| !kept.contains(key)) {
            self.router.remove_route(gone);
        }
        for (source, route) in routes {
            self.router.insert_route(&route, |rule| Arc::new(source.rules[rule.index].clone()));
        }
        self.keys_by_shard.insert(routing.shard, keys);
        if routing.shard == 0 {
            self.router.set_listeners(&routing.listeners);
        }
        Ok(())
    }
}
