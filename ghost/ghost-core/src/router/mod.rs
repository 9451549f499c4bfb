//! The router: which rule serves a request.
//!
//! In:  listeners, and compiled routes with a payload for each rule.
//! Out: the rule that serves a request ([`Router::find`]), or why it does
//!      ([`Router::explain`]).
//!
//! [`precedence`] states how the router decides between routes that match the same request.
//! Listeners and routes may be inserted in any order. A route that names an unknown
//! listener serves nothing until the listener exists.
//!
//! ```
//! use std::sync::Arc;
//!
//! use ghost_core::{wire, OwnedRequest, Route, Router};
//!
//! let route = |prefix: &str| -> Result<_, Box<dyn std::error::Error>> {
//!     let json = format!(
//!         r#"{{"namespace": "shop", "name": "tea", "attachments": [{{"listener": "web"}}],
//!             "rules": [{{"matches": [{{"path": {{"type": "prefix", "value": "{prefix}"}}}}]}}]}}"#
//!     );
//!     Ok(Arc::new(Route::compile(&wire::decode(json.as_bytes())?)?))
//! };
//! let mut router = Router::new();
//! router.set_listeners(&[wire::Listener { name: "web".into(), ..Default::default() }]);
//! // The payload is whatever the caller needs at hand when a rule serves a request.
//! router.insert_route(&route("/tea")?, |rule| format!("director of {}", rule.identity));
//!
//! let request = OwnedRequest::new("GET", "cafe.example.com", "/tea/green")?;
//! assert_eq!(router.find(&request)?.unwrap().payload, "director of shop/tea/0");
//!
//! // Requests keep the snapshot that they began with while an update builds the next one.
//! let snapshot = router.clone();
//! router.insert_route(&route("/coffee")?, |_| "another director".to_owned());
//! assert!(router.find(&request)?.is_none());
//! assert!(snapshot.find(&request)?.is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod candidates;
pub mod explain;
mod hostnames;
mod map;
mod paths;
pub mod precedence;
mod preflight;

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use candidates::Candidate;
use hostnames::Hostnames;
use map::Map;
use paths::PathTree;

use crate::host::Host;
use crate::matches::Match;
use crate::request::{Lookup, Request};
use crate::route::{Route, Rule};
use crate::steps::{OverBudget, Steps};
use crate::wire;

/// The listeners of one socket by their hostname.
type SocketListeners = Hostnames<Option<Arc<wire::Listener>>>;

/// The socket of listeners that serve every socket which no other listener names.
const ANY_SOCKET: &str = "*";

/// Finds the rule that serves a request; `T` is the payload that the caller stores with
/// each rule. See the [module](self) for an example.
///
/// A router is persistent: [`Clone`] takes constant time and shares everything, and a
/// change copies the branch that it changes.
#[derive(Clone)]
pub struct Router<T: Clone> {
    /// Replaced as a whole: a Gateway has few listeners, and they seldom change.
    sockets: Arc<HashMap<Box<str>, SocketListeners, foldhash::fast::RandomState>>,
    /// By the name of the listener that routes are attached to.
    attached: Map<Arc<str>, Hostnames<PathTree<T>>>,
    routes: Map<Arc<str>, Arc<Route>>,
}

/// The rule that serves a request.
#[derive(Debug)]
#[non_exhaustive]
pub struct Found<'a, T> {
    /// The listener that accepted the request.
    pub listener: &'a Arc<wire::Listener>,
    /// The rule that serves it.
    pub rule: &'a Arc<Rule>,
    /// Which of the rule's matches the request met.
    pub match_index: usize,
    /// What the caller stored with this rule.
    pub payload: &'a T,
    /// Whether the request is a preflight that the rule's CORS filter answers.
    pub preflight: bool,
}

impl<'a, T> Found<'a, T> {
    /// The match that the request met.
    #[must_use]
    pub fn matched(&self) -> &'a Match {
        &self.rule.matches[self.match_index]
    }
}

impl<T: Clone> Default for Router<T> {
    fn default() -> Self {
        Self { sockets: Arc::default(), attached: Map::default(), routes: Map::default() }
    }
}

impl<T: Clone> fmt::Debug for Router<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("routes", &self.len()).finish_non_exhaustive()
    }
}

impl<T: Clone> Router<T> {
    /// A router that finds nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Replace all listeners. Of two with the same socket and hostname the first counts.
    pub fn set_listeners(&mut self, listeners: &[wire::Listener]) {
        let mut sockets: HashMap<Box<str>, SocketListeners, _> = HashMap::default();
        for listener in listeners {
            let socket = sockets.entry(listener.socket.as_str().into()).or_default();
            socket.update(&listener.hostname, |place| {
                place.get_or_insert_with(|| Arc::new(listener.clone()));
            });
        }
        self.sockets = Arc::new(sockets);
    }

    /// Insert a route, or replace the one of the same key. `payload` is called once for
    /// each rule. Returns false and changes nothing if the router already holds this very
    /// `Arc`.
    pub fn insert_route(
        &mut self,
        route: &Arc<Route>,
        mut payload: impl FnMut(&Arc<Rule>) -> T,
    ) -> bool {
        if self.routes.get(route.key()).is_some_and(|old| Arc::ptr_eq(old, route)) {
            return false;
        }
        self.remove_route(route.key());
        self.routes.insert(Arc::clone(route.key()), Arc::clone(route));
        for rule in route.rules() {
            let payload = payload(rule);
            for attachment in route.attachments() {
                self.attached.update(attachment.listener.as_str(), |hosts| {
                    attach(hosts, attachment, rule, &payload);
                });
            }
        }
        true
    }

    /// Remove the route `namespace/name` and return it.
    pub fn remove_route(&mut self, key: &str) -> Option<Arc<Route>> {
        let route = Arc::clone(self.routes.get(key)?);
        self.routes.remove(key);
        for attachment in route.attachments() {
            self.attached.shrink(attachment.listener.as_str(), |hosts| {
                detach(hosts, attachment, &route);
                hosts.is_empty()
            });
        }
        Some(route)
    }

    /// The route `namespace/name`.
    #[must_use]
    pub fn route(&self, key: &str) -> Option<&Arc<Route>> {
        self.routes.get(key)
    }

    /// How many routes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there is no route.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Every route, in no order.
    pub fn routes(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.routes.values()
    }

    /// The listener that accepts requests for `host` on `socket`.
    #[must_use]
    pub fn listener(&self, socket: &str, host: &[u8]) -> Option<&Arc<wire::Listener>> {
        let listeners = self.sockets.get(socket).or_else(|| self.sockets.get(ANY_SOCKET))?;
        listeners.tiers(host).find_map(|(_, listener)| listener.as_ref())
    }

    /// Whether a request for `host` arrived on a TLS connection that belongs to another
    /// listener, which a proxy answers with 421: the server name of the handshake and the
    /// host select different listeners. A host without a listener is not misdirected (it is
    /// a 404), and neither is a request of a client that sent no server name.
    #[must_use]
    pub fn is_misdirected(&self, socket: &str, server_name: &[u8], host: &[u8]) -> bool {
        if server_name.is_empty() || server_name == host {
            return false;
        }
        let Some(expected) = self.listener(socket, host) else { return false };
        let server_name = Host::parse(server_name).ok();
        let chosen = server_name.and_then(|name| self.listener(socket, &name));
        chosen.is_none_or(|chosen| !Arc::ptr_eq(chosen, expected))
    }

    /// The rule that serves `request`; None is a 404. A CORS preflight is served by the rule
    /// of the request that it announces, if that rule has CORS.
    ///
    /// The cost grows with the labels of the host, the segments of the path (up to a fixed
    /// depth) and the candidates of the nodes that it passes, not with the number of routes.
    /// It does not allocate, save for what is rare: a repeated header, an encoded query
    /// parameter or a query of more than 256 bytes that a match reads, and the first use of a
    /// regular expression in a thread.
    ///
    /// # Errors
    /// The matches of routes take too many [`steps`](crate::steps) for this
    /// request, so that it remains unknown which rule serves it.
    pub fn find(&self, request: &impl Request) -> Result<Option<Found<'_, T>>, OverBudget> {
        self.find_within(request, &Steps::of_request())
    }

    /// The same for a request that has `steps` left. What it leaves is for other questions about
    /// the request.
    ///
    /// # Errors
    /// As for [`find`](Self::find).
    pub fn find_within(
        &self,
        request: &impl Request,
        steps: &Steps,
    ) -> Result<Option<Found<'_, T>>, OverBudget> {
        if request.method() == b"OPTIONS" {
            return self.find_for_options(request, steps);
        }
        self.find_lookup(&Lookup::new(request, steps))
    }

    fn find_lookup<R: Request>(
        &self,
        request: &Lookup<'_, R>,
    ) -> Result<Option<Found<'_, T>>, OverBudget> {
        let listener = self.listener(request.socket(), request.host());
        let hosts = listener.and_then(|listener| self.attached.get(listener.name.as_str()));
        let (Some(listener), Some(hosts)) = (listener, hosts) else { return Ok(None) };
        for (_, paths) in hosts.tiers(request.host()) {
            if let Some(candidate) = first_match(paths, request)? {
                return Ok(Some(Found {
                    listener,
                    rule: &candidate.rule,
                    match_index: candidate.match_index,
                    payload: &candidate.payload,
                    preflight: false,
                }));
            }
        }
        Ok(None)
    }
}

fn first_match<'a, T, R: Request>(
    paths: &'a PathTree<T>,
    request: &Lookup<'_, R>,
) -> Result<Option<&'a Candidate<T>>, OverBudget> {
    let walked = paths.walk(request.path(), &mut |candidate| match candidate.matches(request) {
        Ok(false) => ControlFlow::Continue(()),
        Ok(true) => ControlFlow::Break(Ok(candidate)),
        Err(over) => ControlFlow::Break(Err(over)),
    });
    walked.break_value().transpose()
}

fn attach<T: Clone>(
    hosts: &mut Hostnames<PathTree<T>>,
    attachment: &wire::Attachment,
    rule: &Arc<Rule>,
    payload: &T,
) {
    for hostname in &attachment.hostnames {
        hosts.update(hostname, |paths| {
            for match_index in 0..rule.matches.len() {
                let (rule, payload) = (Arc::clone(rule), payload.clone());
                paths.insert(Candidate { rule, match_index, payload });
            }
        });
    }
}

fn detach<T: Clone>(
    hosts: &mut Hostnames<PathTree<T>>,
    attachment: &wire::Attachment,
    route: &Route,
) {
    for hostname in &attachment.hostnames {
        hosts.shrink(hostname, |paths| {
            for rule in route.rules() {
                for match_index in 0..rule.matches.len() {
                    paths.remove(rule, match_index);
                }
            }
            paths.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_every_route_leaves_no_node_behind() {
        let route: wire::Route = wire::decode(
            br#"{"namespace": "ns", "name": "a", "attachments": [{"listener": "web"}],
                "rules": [{"matches": [{"path": {"type": "exact", "value": "/x/y"}}, {}]}]}"#,
        )
        .unwrap();
        let mut router = Router::new();
        router.insert_route(&Arc::new(Route::compile(&route).unwrap()), |_| ());
        assert!(!router.attached.is_empty());
        assert!(router.remove_route("ns/b").is_none());
        assert_eq!(router.remove_route("ns/a").unwrap().key().as_ref(), "ns/a");
        assert!(router.is_empty() && router.attached.is_empty());
    }
}
