//! A router that is loaded shard by shard.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use ghost_core::target::PathRules;
use ghost_core::wire;
use ghost_core::{Route, RouteError, Router};

/// A router, what its Gateway asks of paths, and the routes of each shard that it was loaded from.
#[derive(Default)]
pub(crate) struct ShardedRouter {
    router: Router<Arc<wire::Rule>>,
    paths: PathRules,
    keys_by_shard: BTreeMap<u32, Vec<Arc<str>>>,
}

impl ShardedRouter {
    pub(crate) fn router(&self) -> &Router<Arc<wire::Rule>> {
        &self.router
    }

    pub(crate) fn paths(&self) -> &PathRules {
        &self.paths
    }

    /// Replace the shard of the same number with `routing`; an error changes nothing.
    pub(crate) fn update(&mut self, routing: &wire::Routing) -> Result<(), RouteError> {
        let routes = routing
            .routes
            .iter()
            .map(|source| Ok((source, Arc::new(Route::compile(source)?))))
            .collect::<Result<Vec<_>, RouteError>>()?;
        let keys: Vec<Arc<str>> = routes.iter().map(|(_, route)| Arc::clone(route.key())).collect();
        let kept: HashSet<&Arc<str>> = keys.iter().collect();
        let old = self.keys_by_shard.remove(&routing.shard).unwrap_or_default();
        for removed in old.iter().filter(|key| !kept.contains(key)) {
            self.router.remove_route(removed);
        }
        for (source, route) in routes {
            self.router.insert_route(&route, |rule| Arc::new(source.rules[rule.index].clone()));
        }
        self.keys_by_shard.insert(routing.shard, keys);
        if routing.shard == 0 {
            self.router.set_listeners(&routing.listeners);
            self.paths = PathRules::new(&routing.requests);
        }
        Ok(())
    }
}
