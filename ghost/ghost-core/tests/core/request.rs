//! Requests and routes for tests.

use std::borrow::Cow;
use std::sync::Arc;

use ghost_core::{join_values, target, wire, Request, Route, Router};

/// A request as plain data.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) socket: String,
    pub(crate) host: String,
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
}

impl Ask {
    pub(crate) fn get(host: &str, target: &str) -> Self {
        Self {
            socket: "http-80".into(),
            host: host.into(),
            method: "GET".into(),
            target: target.into(),
            headers: Vec::new(),
        }
    }

    pub(crate) fn method(mut self, method: &str) -> Self {
        self.method = method.into();
        self
    }

    pub(crate) fn socket(mut self, socket: &str) -> Self {
        self.socket = socket.into();
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &[u8]) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

impl Request for Ask {
    fn socket(&self) -> &str {
        &self.socket
    }

    fn host(&self) -> &[u8] {
        self.host.as_bytes()
    }

    fn method(&self) -> &[u8] {
        self.method.as_bytes()
    }

    fn path(&self) -> &[u8] {
        target::split(self.target.as_bytes()).0
    }

    fn query(&self) -> Option<&[u8]> {
        target::split(self.target.as_bytes()).1
    }

    fn header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let named = self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        join_values(named.map(|(_, value)| value.as_slice()))
    }
}

/// A router whose payload is the identity of the rule.
pub(crate) type TestRouter = Router<String>;

pub(crate) fn insert(router: &mut TestRouter, route: &wire::Route) -> bool {
    let route = Arc::new(Route::compile(route).unwrap());
    router.insert_route(&route, |rule| rule.identity.to_string())
}

pub(crate) fn router(listeners: &[wire::Listener], routes: &[wire::Route]) -> TestRouter {
    let mut filled = TestRouter::new();
    filled.set_listeners(listeners);
    for route in routes {
        insert(&mut filled, route);
    }
    filled
}

/// A router from a routing shard in JSON.
pub(crate) fn router_from(json: &str) -> TestRouter {
    let routing: wire::Routing = wire::decode(json.as_bytes()).unwrap();
    router(&routing.listeners, &routing.routes)
}

/// A router with one listener "web" for every host on "http-80", and routes of namespace
/// "ns" made of `(name, rules in JSON)`.
pub(crate) fn one_listener(routes: &[(&str, &str)]) -> TestRouter {
    let routes: Vec<_> = routes
        .iter()
        .map(|(name, rules)| {
            format!(
                r#"{{"namespace": "ns", "name": "{name}", "attachments": [{{"listener": "web"}}], "rules": {rules}}}"#
            )
        })
        .collect();
    router_from(&format!(
        r#"{{"version": 2, "listeners": [{{"name": "web", "socket": "http-80", "port": 80}}], "routes": [{}]}}"#,
        routes.join(",")
    ))
}

/// Identity of the rule that serves, and the index of its match.
pub(crate) fn served(router: &TestRouter, ask: &Ask) -> Option<(String, usize)> {
    router.find(ask).map(|found| {
        assert_eq!(*found.payload, *found.rule.identity);
        (found.payload.clone(), found.match_index)
    })
}

/// Identity of the rule that serves; "" where none does.
pub(crate) fn rule(router: &TestRouter, ask: &Ask) -> String {
    served(router, ask).map(|(identity, _)| identity).unwrap_or_default()
}
