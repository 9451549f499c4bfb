//! The time of a lookup and of an update, with few and with many hosts and paths.
//!
//! `cargo run --release --example measure`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use ghost_core::{wire, OwnedRequest, Route, Router};

/// How the routes of a measurement differ from each other.
#[derive(Clone, Copy)]
enum Kind {
    Hosts,
    Wildcards,
    Exact,
    Prefixes,
    Regexes,
    /// Regular expressions without a literal first segment: one node holds them all.
    LooseRegexes,
}

impl Kind {
    fn route(self, n: usize, created: usize) -> Arc<Route> {
        let (host, kind, path) = match self {
            Self::Hosts => (format!("host-{n}.example.com"), "prefix", "/".to_owned()),
            Self::Wildcards => (format!("*.host-{n}.example.com"), "prefix", "/".to_owned()),
            Self::Exact => ("www.example.com".to_owned(), "exact", format!("/shop/item-{n}/view")),
            Self::Prefixes => ("www.example.com".to_owned(), "prefix", format!("/shop/item-{n}")),
            Self::Regexes => {
                ("www.example.com".to_owned(), "regex", format!("/shop/item-{n}/[a-z]+"))
            }
            Self::LooseRegexes => {
                ("www.example.com".to_owned(), "regex", format!("/[a-z]+/item-{n}/view"))
            }
        };
        let json = format!(
            r#"{{"namespace": "ns", "name": "route-{n}", "created": {created},
                "attachments": [{{"listener": "web", "hostnames": ["{host}"]}}],
                "rules": [{{"matches": [{{"path": {{"type": "{kind}", "value": "{path}"}}}}]}}]}}"#
        );
        let route = wire::decode(json.as_bytes()).unwrap_or_else(|error| unreachable!("{error}"));
        Arc::new(Route::compile(&route).unwrap_or_else(|error| unreachable!("{error}")))
    }

    fn request(self, n: usize) -> OwnedRequest {
        let (host, target) = match self {
            Self::Hosts => (format!("host-{n}.example.com"), "/shop/item/view".to_owned()),
            Self::Wildcards => (format!("www.host-{n}.example.com"), "/shop/item/view".to_owned()),
            _ => ("www.example.com".to_owned(), format!("/shop/item-{n}/view")),
        };
        let request = OwnedRequest::new("GET", &host, &target);
        request.unwrap_or_else(|error| unreachable!("{error}")).with_socket("http-80")
    }
}

fn filled(kind: Kind, size: usize) -> Router<u64> {
    let mut router = Router::new();
    router.set_listeners(&[wire::Listener {
        name: "web".into(),
        socket: "http-80".into(),
        ..wire::Listener::default()
    }]);
    for n in 0..size {
        router.insert_route(&kind.route(n, 0), |_| 0);
    }
    router
}

/// The average time of a call of `work` in nanoseconds.
fn nanoseconds(calls: usize, mut work: impl FnMut(usize)) -> u128 {
    let started = Instant::now();
    for n in 0..calls {
        work(n);
    }
    started.elapsed().as_nanos() / calls as u128
}

fn measure(name: &str, kind: Kind, size: usize) {
    let started = Instant::now();
    let router = filled(kind, size);
    let build = started.elapsed().as_millis();
    let requests: Vec<_> = (0..1000).map(|n| kind.request(n * 7919 % size)).collect();
    let lookup = nanoseconds(20_000, |n| {
        assert!(black_box(router.find(&requests[n % requests.len()]))
            .is_ok_and(|found| found.is_some()));
    });
    let changed: Vec<_> = (0..1000).map(|n| kind.route(n * 7919 % size, 1)).collect();
    // Each update on a copy, as a reload does while requests use the original.
    let update = nanoseconds(changed.len(), |n| {
        let mut copy = router.clone();
        copy.insert_route(&changed[n], |_| 1);
        black_box(copy);
    });
    println!(
        "{name:>14} {size:>6}: lookup {lookup:>7} ns, update {update:>7} ns, all {build:>5} ms"
    );
}

fn main() {
    let kinds = [
        ("hosts", Kind::Hosts),
        ("wildcards", Kind::Wildcards),
        ("exact", Kind::Exact),
        ("prefixes", Kind::Prefixes),
        ("regexes", Kind::Regexes),
        ("loose regexes", Kind::LooseRegexes),
    ];
    for (name, kind) in kinds {
        for size in [10, 1_000, 20_000] {
            if !(matches!(kind, Kind::LooseRegexes) && size > 1_000) {
                measure(name, kind, size);
            }
        }
    }
}
