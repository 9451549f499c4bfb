//! The wire format, and the server name of a TLS handshake.

use std::sync::{Arc, OnceLock};

use ghost_core::wire::{self, Routing};
use ghost_core::{Host, OwnedRequest, Route, Router};

/// The sockets that requests come in on; "http-80" has listeners in the corpus.
const SOCKETS: [&str; 2] = ["http-80", "https-443"];

/// A shard, or a `ghost.json`: a document that decodes can be encoded and decoded to the same,
/// and a router made of it explains what it does.
pub fn wire(data: &[u8]) {
    if let Ok(wire::Config::V1(config)) = wire::decode_config(data) {
        let (routing, _) = config.upgrade();
        route_requests(&routing);
    }
    let _ = wire::decode::<wire::Endpoints>(data);
    if let Ok(routing) = wire::decode::<Routing>(data) {
        route_requests(&routing);
    }
}

fn route_requests(routing: &Routing) {
    let mut router = Router::new();
    router.set_listeners(&routing.listeners);
    for source in &routing.routes {
        let Ok(route) = Route::compile_or_replace(source) else { continue };
        assert!(route.is_compiled_from(source));
        let route = Arc::new(route);
        router.insert_route(&route, |rule| rule.identity.clone());
        assert!(!router.insert_route(&route, |rule| rule.identity.clone()));
    }
    for request in requests(routing) {
        explain(&router, &request);
    }
    let keys: Vec<_> = router.routes().map(|route| Arc::clone(route.key())).collect();
    for key in keys {
        assert!(router.remove_route(&key).is_some());
    }
    assert!(router.is_empty());
}

/// Requests that come near what the routes match.
fn requests(routing: &Routing) -> Vec<OwnedRequest> {
    let attachments = routing.routes.iter().flat_map(|route| &route.attachments);
    let hosts = attachments.flat_map(|one| &one.hostnames).map(|host| host.replace('*', "x"));
    let rules = routing.routes.iter().flat_map(|route| &route.rules);
    let matches: Vec<_> = rules.flat_map(|rule| &rule.matches).take(8).collect();
    let paths = matches.iter().map(|one| one.path.value.clone()).chain(["/".to_owned()]);
    let paths: Vec<_> = paths.collect();
    let mut made = Vec::new();
    for host in hosts.take(4).chain(["a.example".to_owned()]) {
        for (path, socket) in paths.iter().flat_map(|path| SOCKETS.map(|socket| (path, socket))) {
            let Ok(mut request) = OwnedRequest::new("GET", &host, path) else { continue };
            for header in matches.iter().flat_map(|one| &one.headers) {
                request = request.with_header(&header.name, header.value.as_bytes());
            }
            made.push(request.with_socket(socket));
        }
    }
    made
}

fn explain(router: &Router<Box<str>>, request: &OwnedRequest) {
    let explanation = router.explain(request);
    let Ok(found) = router.find(request) else {
        assert!(explanation.over_budget.is_some());
        return;
    };
    let winner = explanation.winner.map(|winner| (winner.payload, winner.match_index));
    let found = found.map(|found| (found.payload, found.match_index));
    assert_eq!(found, winner, "explain names the rule that serves");
}

/// The server name that the TLS terminator sends (PROXY protocol, type 0x02), and after a line
/// end the Host header. varnishd parses the protocol; ghost compares the two.
pub fn server_name(data: &[u8]) {
    let at = data.iter().position(|&byte| byte == b'\n').unwrap_or(data.len());
    let (name, host) = (&data[..at], data.get(at + 1..).unwrap_or_default());
    let Ok(host) = Host::parse(host) else { return };
    let router = listeners();
    let misdirected = |name: &[u8]| router.is_misdirected("https-443", name, &host);
    assert!(!misdirected(b"") && !misdirected(&host));
    let upper = name.to_ascii_uppercase();
    assert!(name == &*host || misdirected(name) == misdirected(&upper), "case makes no difference");
    let unreadable = Host::parse(name).is_err() && !name.is_empty();
    let has_listener = router.listener("https-443", &host).is_some();
    assert!(!unreadable || misdirected(name) == has_listener, "a malformed name is no listener's");
}

fn listeners() -> &'static Router<()> {
    static ROUTER: OnceLock<Router<()>> = OnceLock::new();
    ROUTER.get_or_init(|| {
        let listener = |name: &str, hostname: &str| wire::Listener {
            name: name.to_owned(),
            socket: "https-443".to_owned(),
            hostname: hostname.to_owned(),
            ..wire::Listener::default()
        };
        let mut router = Router::new();
        router.set_listeners(&[
            listener("one", "a.example"),
            listener("wild", "*.example"),
            listener("deep", "*.b.example"),
        ]);
        router
    })
}
