//! Routes and requests for tests.

use std::sync::Arc;

use ghost_core::{wire, OwnedRequest, Route, Router, Rule};
use proptest::test_runner::Config;

/// So many random cases, or as many as `PROPTEST_CASES` says: a sanitizer or an interpreter takes
/// longer for each.
pub(crate) fn cases(count: u32) -> Config {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => Config::default(),
        None => Config::with_cases(count),
    }
}

/// A request on the socket "http-80".
pub(crate) fn request(method: &str, host: &str, target: &str) -> OwnedRequest {
    OwnedRequest::new(method, host, target).unwrap().with_socket("http-80")
}

/// A GET request on the socket "http-80".
pub(crate) fn get(host: &str, target: &str) -> OwnedRequest {
    request("GET", host, target)
}

/// The compiled rule of `rule` in JSON, in a route that serves nothing.
pub(crate) fn compiled_rule(rule: &str) -> Arc<Rule> {
    let route =
        format!(r#"{{"namespace": "n", "name": "r", "attachments": [], "rules": [{rule}]}}"#);
    let route: wire::Route = wire::decode(route.as_bytes()).unwrap();
    Arc::clone(&Route::compile(&route).unwrap().rules()[0])
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

/// The identity of the rule that serves, and the index of its match.
pub(crate) fn served(router: &TestRouter, request: &OwnedRequest) -> Option<(String, usize)> {
    router.find(request).unwrap().map(|found| {
        assert_eq!(*found.payload, *found.rule.identity);
        (found.payload.clone(), found.match_index)
    })
}

/// The identity of the rule that serves; "" if none does.
pub(crate) fn rule(router: &TestRouter, request: &OwnedRequest) -> String {
    served(router, request).map(|(identity, _)| identity).unwrap_or_default()
}
