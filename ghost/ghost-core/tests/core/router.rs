//! The router against the oracle, and the promises of updates.

use std::collections::BTreeMap;
use std::sync::Arc;

use ghost_core::wire::{
    Attachment, Listener, Match, PathMatch, PathMatchType, Route, Rule, Scheme, ValueMatch,
    ValueMatchType,
};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::oracle::{is_misdirected, scan, PlainRequest};
use crate::support::{cases, get, insert, one_listener, router, rule, served, TestRouter};

const HOSTNAMES: &[&str] = &["*", "*.com", "*.b.a.com", "a.com", "b.a.com"];
const HOSTS: &[&str] = &["", "com", "a.com", "b.a.com", "c.b.a.com"];
const SOCKETS: &[&str] = &["http-80", "*"];
const LISTENERS: &[&str] = &["one", "two", "three", "four"];
const REGEXES: &[&str] =
    &["/a/.*", "/[ab]+", "/a/b/?", ".*", "/(a|b)/c", "/a/b/c.*", "(?:/a)+", "/b//?.*"];

/// Few paths, so that many matches share one; some with empty segments, some deeper than
/// the index.
fn path() -> impl Strategy<Value = String> {
    prop_oneof![
        12 => prop::collection::vec(select(&["a", "b"][..]), 0..3)
            .prop_map(|segments| format!("/{}", segments.join("/"))),
        3 => prop::collection::vec(select(&["a", "b", "c", "ab", ""][..]), 0..5)
            .prop_map(|segments| format!("/{}", segments.join("/"))),
        1 => (15_usize..19, select(&["", "/b", "/"][..])).prop_map(|(n, end)| "/a".repeat(n) + end),
    ]
}

fn path_match() -> impl Strategy<Value = PathMatch> {
    prop_oneof![
        path().prop_map(|value| PathMatch { r#type: PathMatchType::Exact, value }),
        path().prop_map(|value| {
            let value = value.trim_end_matches('/');
            let value = if value.is_empty() { "/" } else { value }.to_owned();
            PathMatch { r#type: PathMatchType::Prefix, value }
        }),
        select(REGEXES)
            .prop_map(|value| PathMatch { r#type: PathMatchType::Regex, value: value.into() }),
    ]
}

/// Mostly none; each name at most once, as the CRD promises.
fn values() -> impl Strategy<Value = Vec<ValueMatch>> {
    let condition =
        select(&[("1", false), ("2", false), ("1,2", false), ("[12]", true), (".*", true)][..]);
    let named = prop::collection::btree_map(select(&["x", "y"][..]), condition, 1..3);
    option::weighted(0.4, named).prop_map(|named| {
        let value = |(name, (value, regex)): (&str, (&str, bool))| ValueMatch {
            name: name.into(),
            value: value.into(),
            r#type: if regex { ValueMatchType::Regex } else { ValueMatchType::Exact },
        };
        named.into_iter().flatten().map(value).collect()
    })
}

fn method() -> impl Strategy<Value = String> {
    select(&["GET", "PUT"][..]).prop_map(str::to_owned)
}

fn a_match() -> impl Strategy<Value = Match> {
    (path_match(), option::weighted(0.3, method()), values(), values())
        .prop_map(|(path, method, headers, query)| Match { path, method, headers, query })
}

fn a_rule() -> impl Strategy<Value = Rule> {
    let status = select(&[200, 200, 500][..]);
    (prop::collection::vec(a_match(), 0..4), prop::bool::weighted(0.2), status).prop_map(
        |(matches, approximate, status)| Rule {
            matches,
            approximate,
            status: Some(status),
            ..Rule::default()
        },
    )
}

fn attachment() -> impl Strategy<Value = Attachment> {
    (select(LISTENERS), prop::collection::vec(select(HOSTNAMES), 1..4)).prop_map(
        |(listener, hostnames)| Attachment {
            listener: listener.into(),
            hostnames: hostnames.into_iter().map(str::to_owned).collect(),
        },
    )
}

fn route() -> impl Strategy<Value = Route> {
    (
        select(&["n", "m"][..]),
        select(&["p", "q", "r", "s"][..]),
        0_i64..3,
        prop::collection::vec(attachment(), 1..4),
        prop::collection::vec(a_rule(), 1..4),
    )
        .prop_map(|(namespace, name, created, attachments, rules)| Route {
            namespace: namespace.into(),
            name: name.into(),
            created,
            attachments,
            rules,
        })
}

fn listeners() -> impl Strategy<Value = Vec<Listener>> {
    // One listener for each socket and hostname, as translation promises.
    let places = prop::collection::btree_set((select(SOCKETS), select(HOSTNAMES)), 1..=4);
    places.prop_map(|places| {
        let listener = |((socket, hostname), name): ((&str, &str), &&str)| Listener {
            name: (*name).into(),
            socket: socket.into(),
            port: 80,
            scheme: Scheme::Http,
            hostname: hostname.into(),
            cache: None,
        };
        places.into_iter().zip(LISTENERS).map(listener).collect()
    })
}

fn a_request() -> impl Strategy<Value = PlainRequest> {
    let pair = (select(&["x", "y", "z"][..]), select(&["1", "2", ""][..]));
    let pairs = || prop::collection::vec(pair.clone(), 0..4);
    (select(&["http-80", "http-81"][..]), select(HOSTS), method(), path(), pairs(), pairs())
        .prop_map(|(socket, host, method, path, headers, query)| PlainRequest {
            socket: socket.into(),
            host: host.into(),
            method,
            target: format!(
                "{path}?{}",
                query.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join("&")
            ),
            headers: headers.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        })
}

/// Several routes with distinct names.
fn routes() -> impl Strategy<Value = Vec<Route>> {
    prop::collection::vec(route(), 0..8).prop_map(|routes| {
        let named: BTreeMap<_, _> = routes
            .into_iter()
            .map(|route| ((route.namespace.clone(), route.name.clone()), route))
            .collect();
        named.into_values().collect()
    })
}

/// One change of a router.
#[derive(Clone, Debug)]
enum Step {
    Insert(Route),
    Remove(&'static str),
    Listeners(Vec<Listener>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => route().prop_map(Step::Insert),
        3 => select(&["n/p", "n/q", "n/r", "n/s", "m/p", "m/q", "m/r", "m/s"][..]).prop_map(Step::Remove),
        1 => listeners().prop_map(Step::Listeners),
    ]
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn router_finds_what_the_oracle_finds(
        listeners in listeners(), routes in routes(), requests in prop::collection::vec(a_request(), 1..12)
    ) {
        let router = router(&listeners, &routes);
        for request in requests {
            let expected = scan(&listeners, &routes, &request);
            prop_assert_eq!(served(&router, &request.owned()), expected.clone(), "{:?}", request);
            let request = request.owned();
            let explained = router.explain(&request);
            let winner = explained.winner.map(|it| (it.payload.clone(), it.match_index));
            prop_assert_eq!(winner, expected);
        }
    }

    #[test]
    fn misdirected_requests_are_those_of_the_oracle(
        listeners in listeners(), server_name in select(HOSTS), host in select(HOSTS)
    ) {
        let router = router(&listeners, &[]);
        prop_assert_eq!(
            router.is_misdirected("http-80", server_name.as_bytes(), host.as_bytes()),
            is_misdirected(&listeners, "http-80", server_name, host)
        );
    }

    #[test]
    fn updated_router_and_its_snapshots_equal_rebuilt_ones(
        steps in prop::collection::vec(step(), 1..24), requests in prop::collection::vec(a_request(), 1..12)
    ) {
        let mut changed = TestRouter::new();
        let (mut listeners, mut routes) = (vec![], BTreeMap::new());
        let mut snapshots = vec![];
        for step in steps {
            snapshots.push((changed.clone(), listeners.clone(), routes.clone()));
            match step {
                Step::Insert(route) => {
                    prop_assert!(insert(&mut changed, &route));
                    routes.insert(format!("{}/{}", route.namespace, route.name), route);
                }
                Step::Remove(key) => {
                    prop_assert_eq!(changed.remove_route(key).is_some(), routes.remove(key).is_some());
                }
                Step::Listeners(new) => {
                    changed.set_listeners(&new);
                    listeners = new;
                }
            }
        }
        snapshots.push((changed, listeners, routes));
        // No snapshot has changed since it was made.
        for (router, listeners, routes) in snapshots {
            prop_assert_eq!(router.len(), routes.len());
            let routes: Vec<_> = routes.into_values().collect();
            for request in &requests {
                let expected = scan(&listeners, &routes, request);
                prop_assert_eq!(served(&router, &request.owned()), expected, "{:?}", request);
            }
        }
    }
}

#[test]
fn server_names_are_compared_like_hosts() {
    let listener = |name: &str, hostname: &str| Listener {
        name: name.into(),
        socket: "https-443".into(),
        port: 443,
        scheme: Scheme::Https,
        hostname: hostname.into(),
        cache: None,
    };
    let router = router(&[listener("one", "a.com"), listener("two", "*.b.com")], &[]);
    let misdirected =
        |server_name: &[u8], host: &[u8]| router.is_misdirected("https-443", server_name, host);
    assert!(!misdirected(b"A.com.", b"a.com"));
    assert!(!misdirected(b"x.b.com", b"y.z.b.com"));
    assert!(misdirected(b"x.b.com", b"a.com"));
    assert!(misdirected(b"unknown", b"a.com"));
    assert!(misdirected(b"\xff", b"a.com"));
    assert!(!misdirected(b"a.com", b"unknown")); // no listener: 404
    assert!(!misdirected(b"", b"a.com"));
}

#[test]
fn inserting_the_same_route_again_changes_nothing() {
    let mut router = TestRouter::new();
    let json = br#"{"namespace": "n", "name": "r", "attachments": [], "rules": [{}]}"#;
    let source: Route = ghost_core::wire::decode(json).unwrap();
    let route = Arc::new(ghost_core::Route::compile(&source).unwrap());
    assert!(router.insert_route(&route, |_| String::new()));
    assert!(!router.insert_route(&route, |_| unreachable!()));
    assert!(route.is_compiled_from(&source));
    assert!(!route.is_compiled_from(&Route { created: 1, ..source }));
}

#[test]
fn route_serves_once_its_listener_exists() {
    let mut router = one_listener(&[("a", "[{}]")]);
    router.set_listeners(&[]);
    assert_eq!(rule(&router, &get("h", "/")), "");
    let json = br#"{"name": "web", "socket": "http-80", "hostname": "h"}"#;
    router.set_listeners(&[ghost_core::wire::decode(json).unwrap()]);
    assert_eq!(rule(&router, &get("h", "/")), "ns/a/0");
    assert_eq!(rule(&router, &get("i", "/")), "");
}

#[test]
fn many_candidates_of_one_node_stay_in_order() {
    let rules: Vec<_> = (0..500)
        .map(|n| format!(r#"{{"matches": [{{"headers": [{{"name": "n", "value": "{n}"}}]}}]}}"#))
        .collect();
    let (all, some) = (format!("[{}]", rules.join(",")), format!("[{}]", rules[..100].join(",")));
    let mut router = one_listener(&[("all", &all), ("some", &some)]);
    let numbered = |n: usize| get("h", "/").with_header("n", n.to_string());
    for n in [0, 63, 64, 99, 499] {
        assert_eq!(rule(&router, &numbered(n)), format!("ns/all/{n}"));
    }
    router.remove_route("ns/all");
    assert_eq!(rule(&router, &numbered(99)), "ns/some/99");
    assert_eq!(rule(&router, &numbered(100)), "");
}

#[test]
fn path_of_a_million_slashes_is_cheap() {
    let rules = r#"[{}, {"matches": [{"path": {"type": "regex", "value": "/x/.*"}}]},
                    {"matches": [{"path": {"type": "exact", "value": "////////////////////x"}}]}]"#;
    let router = one_listener(&[("a", rules)]);
    let slashes = "/".repeat(1 << 20);
    let started = std::time::Instant::now();
    assert_eq!(rule(&router, &get("h", &slashes)), "ns/a/0");
    // Quadratic time would be hours.
    assert!(started.elapsed() < std::time::Duration::from_secs(5));
}

#[test]
fn long_query_is_parsed_once_for_all_matches() {
    let rules: Vec<_> = (0..1000)
        .map(|n| format!(r#"{{"matches": [{{"query": [{{"name": "q{n}", "value": "1"}}]}}]}}"#))
        .collect();
    let [one, all] = [1, 1000].map(|count| {
        let router = one_listener(&[("a", &format!("[{}]", rules[..count].join(",")))]);
        let target = format!("/?{}", "%61=b&".repeat(5000));
        let started = std::time::Instant::now();
        assert_eq!(rule(&router, &get("h", &target)), "");
        started.elapsed()
    });
    assert!(all < 100 * one, "{one:?} for one match, {all:?} for a thousand");
}

#[test]
fn lookup_and_drop_of_deep_routes_fit_a_small_stack() {
    // A route each: together the patterns would exceed the budget of one.
    let deep: Vec<_> = (0..500)
        .map(|depth| {
            let path = "/a".repeat(depth);
            let rules = format!(
                r#"[{{"matches": [{{"path": {{"type": "prefix", "value": "{path}/b{depth}"}}}},
                                  {{"path": {{"type": "regex", "value": "{path}/[0-9]+"}}}}]}}]"#
            );
            (format!("deep{depth}"), rules)
        })
        .collect();
    let named: Vec<_> = deep.iter().map(|(name, rules)| (&**name, &**rules)).collect();
    let router = one_listener(&named);
    // varnishd gives its workers 80 KiB, of which part is in use.
    let worker = std::thread::Builder::new().stack_size(48 << 10).spawn(move || {
        let target = format!("{}/7", "/a".repeat(499));
        assert_eq!(rule(&router, &get("h", &target)), "ns/deep499/0");
        drop(router);
    });
    worker.unwrap().join().unwrap();
}
