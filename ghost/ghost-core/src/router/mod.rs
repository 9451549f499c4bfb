//! The router: which rule serves a request.
//!
//! In:  listeners, and compiled routes with a payload for each rule.
//! Out: the rule that serves a request, in the order that ARCHITECTURE.md gives.
//!
//! Everything is persistent: a clone shares all of it, and a change copies only the way to
//! what it changes. Routes and listeners may come and go in any order; a route that names
//! a listener which isn't there waits for it.

mod candidates;
mod explain;
mod hostnames;
mod map;
mod paths;
mod preflight;

pub use explain::{Considered, Criterion, Explanation, Loss, RunnerUp, Unmet};

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use candidates::Candidate;
use hostnames::Hostnames;
use map::Map;
use paths::PathTree;

use crate::host::Host;
use crate::matches::Match;
use crate::request::{ReadOnce, Request};
use crate::route::{Route, Rule};
use crate::wire;

/// The listeners of one socket by their hostname.
type SocketListeners = Hostnames<Option<Arc<wire::Listener>>>;

/// The socket of listeners that serve every other socket.
const ANY_SOCKET: &str = "*";

/// Finds the rule that serves a request; `T` is what the caller keeps for each rule.
#[derive(Clone, Debug)]
pub struct Router<T: Clone> {
    /// A Gateway has few listeners, and they change seldom: they are replaced as a whole.
    sockets: Arc<HashMap<Box<str>, SocketListeners, foldhash::fast::RandomState>>,
    /// By the name of the listener that routes are attached to.
    attached: Map<Arc<str>, Hostnames<PathTree<T>>>,
    routes: Map<Arc<str>, Arc<Route>>,
}

/// The rule that serves a request.
#[derive(Debug)]
pub struct Found<'a, T> {
    /// The listener that took the request.
    pub listener: &'a Arc<wire::Listener>,
    /// The rule that serves it.
    pub rule: &'a Arc<Rule>,
    /// Which of the rule's matches held.
    pub match_index: usize,
    /// What the caller keeps for this rule.
    pub payload: &'a T,
    /// Whether the request is a preflight that the rule's CORS answers.
    pub preflight: bool,
}

impl<'a, T> Found<'a, T> {
    /// The match that held.
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

    /// Add a route, or replace the one of the same key; `payload` is asked once for each of
    /// its rules. False, and nothing done, if this very route is already there.
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

    /// Take the route `namespace/name` out and return it.
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

    /// The listener that takes requests for `host` on `socket`.
    #[must_use]
    pub fn listener(&self, socket: &str, host: &[u8]) -> Option<&Arc<wire::Listener>> {
        let listeners = self.sockets.get(socket).or_else(|| self.sockets.get(ANY_SOCKET))?;
        listeners.tiers(host).find_map(|(_, listener)| listener.as_ref())
    }

    /// Whether a request for `host` came over a connection that was made for another
    /// listener: the server name of its TLS handshake chose one that does not take the host
    /// best. A host that no listener takes is nobody's, and a client that named no server
    /// has chosen none.
    #[must_use]
    pub fn is_misdirected(&self, socket: &str, server_name: &[u8], host: &[u8]) -> bool {
        if server_name.is_empty() || server_name == host {
            return false;
        }
        let Some(wanted) = self.listener(socket, host) else { return false };
        let server_name = Host::parse(server_name).ok();
        let chosen = server_name.and_then(|name| self.listener(socket, &name));
        chosen.is_none_or(|chosen| !Arc::ptr_eq(chosen, wanted))
    }

    /// The rule that serves `request`. A preflight is served by the rule of the request
    /// that it announces, where that has CORS.
    pub fn find(&self, request: &impl Request) -> Option<Found<'_, T>> {
        if request.method() == b"OPTIONS" {
            return self.find_for_options(request);
        }
        self.find_as_is(request)
    }

    fn find_as_is(&self, request: &impl Request) -> Option<Found<'_, T>> {
        let listener = self.listener(request.socket(), request.host())?;
        let hosts = self.attached.get(listener.name.as_str())?;
        let asked = ReadOnce::new(request);
        hosts.tiers(request.host()).find_map(|(_, paths)| {
            first_that_holds(paths, &asked).map(|candidate| Found {
                listener,
                rule: &candidate.rule,
                match_index: candidate.match_index,
                payload: &candidate.payload,
                preflight: false,
            })
        })
    }
}

fn first_that_holds<'a, T>(
    paths: &'a PathTree<T>,
    request: &impl Request,
) -> Option<&'a Candidate<T>> {
    let walked = paths.walk(request.path(), &mut |candidate| {
        if candidate.holds(request) {
            ControlFlow::Break(candidate)
        } else {
            ControlFlow::Continue(())
        }
    });
    walked.break_value()
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
