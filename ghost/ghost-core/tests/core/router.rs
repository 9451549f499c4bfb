//! The router against the oracle, and what an update promises.

use std::collections::BTreeMap;
use std::sync::Arc;

use ghost_core::wire::{
    Attachment, Listener, Match, PathMatch, PathMatchType, Route, Rule, Scheme, ValueMatch,
    ValueMatchType,
};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::request::{insert, one_listener, router, rule, served, Ask, TestRouter};
use crate::scan::{is_misdirected, scan};

const HOSTNAMES: &[&str] = &["*", "*.com", "*.b.a.com", "a.com", "b.a.com"];
const HOSTS: &[&str] = &["", "com", "a.com", "b.a.com", "c.b.a.com"];
const SOCKETS: &[&str] = &["http-80", "*"];
const LISTENERS: &[&str] = &["one", "two", "three", "four"];
const REGEXES: &[&str] =
    &["/a/.*", "/[ab]+", "/a/b/?", ".*", "/(a|b)/c", "/a/b/c.*", "(?:/a)+", "/b//?.*"];

/// Few paths, so that many matches meet at one; some with empty segments, some deeper than
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
    prop::collection::vec(a_match(), 0..4).prop_map(|matches| Rule {
        name: None,
        matches,
        filters: None,
        redirect: None,
        status: Some(200),
        backends: vec![],
        timeouts: None,
        retry: None,
        cors: None,
    })
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
        };
        places.into_iter().zip(LISTENERS).map(listener).collect()
    })
}

fn ask() -> impl Strategy<Value = Ask> {
    let pair = (select(&["x", "y", "z"][..]), select(&["1", "2", ""][..]));
    let pairs = || prop::collection::vec(pair.clone(), 0..4);
    (select(&["http-80", "http-81"][..]), select(HOSTS), method(), path(), pairs(), pairs())
        .prop_map(|(socket, host, method, path, headers, query)| Ask {
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

/// Several routes, of which no two have one name.
fn routes() -> impl Strategy<Value = Vec<Route>> {
    prop::collection::vec(route(), 0..8).prop_map(|routes| {
        let named: BTreeMap<_, _> = routes
            .into_iter()
            .map(|route| ((route.namespace.clone(), route.name.clone()), route))
            .collect();
        named.into_values().collect()
    })
}

/// What happens to a router, step by step.
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
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_index_finds_what_a_scan_finds(
        listeners in listeners(), routes in routes(), asks in prop::collection::vec(ask(), 1..12)
    ) {
        let router = router(&listeners, &routes);
        for ask in asks {
            let expected = scan(&listeners, &routes, &ask);
            prop_assert_eq!(served(&router, &ask), expected.clone(), "{:?}", ask);
            let explained = router.explain(&ask);
            let winner = explained.winner.map(|it| (it.payload.clone(), it.match_index));
            prop_assert_eq!(winner, expected);
        }
    }

    #[test]
    fn a_connection_is_for_the_hosts_of_its_listener(
        listeners in listeners(), server_name in select(HOSTS), host in select(HOSTS)
    ) {
        let router = router(&listeners, &[]);
        prop_assert_eq!(
            router.is_misdirected("http-80", server_name.as_bytes(), host.as_bytes()),
            is_misdirected(&listeners, "http-80", server_name, host)
        );
    }

    #[test]
    fn changes_in_any_order_give_what_building_anew_gives(
        steps in prop::collection::vec(step(), 1..24), asks in prop::collection::vec(ask(), 1..12)
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
        // A snapshot that was taken on the way has not changed since.
        for (router, listeners, routes) in snapshots {
            prop_assert_eq!(router.len(), routes.len());
            let routes: Vec<_> = routes.into_values().collect();
            for ask in &asks {
                prop_assert_eq!(served(&router, ask), scan(&listeners, &routes, ask), "{:?}", ask);
            }
        }
    }
}

#[test]
fn server_names_are_compared_as_hosts_are() {
    let listener = |name: &str, hostname: &str| Listener {
        name: name.into(),
        socket: "https-443".into(),
        port: 443,
        scheme: Scheme::Https,
        hostname: hostname.into(),
    };
    let router = router(&[listener("one", "a.com"), listener("two", "*.b.com")], &[]);
    let misdirected =
        |server_name: &[u8], host: &[u8]| router.is_misdirected("https-443", server_name, host);
    assert!(!misdirected(b"A.com.", b"a.com"));
    assert!(!misdirected(b"x.b.com", b"y.z.b.com"));
    assert!(misdirected(b"x.b.com", b"a.com"));
    assert!(misdirected(b"unknown", b"a.com"));
    assert!(misdirected(b"\xff", b"a.com"));
    assert!(!misdirected(b"a.com", b"unknown")); // nobody's: 404
    assert!(!misdirected(b"", b"a.com"));
}

#[test]
fn a_router_from_which_all_is_removed_is_empty() {
    let mut router = one_listener(&[(
        "a",
        r#"[{"matches": [{"path": {"type": "exact", "value": "/x/y"}}, {}]}]"#,
    )]);
    assert!(router.remove_route("ns/b").is_none());
    assert!(format!("{router:?}").contains("PathTree"));
    assert_eq!(router.remove_route("ns/a").unwrap().key().as_ref(), "ns/a");
    assert!(router.is_empty());
    assert!(!format!("{router:?}").contains("PathTree"));
}

#[test]
fn the_same_route_again_is_no_change() {
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
fn a_route_waits_for_its_listener() {
    let mut router = one_listener(&[("a", "[{}]")]);
    router.set_listeners(&[]);
    assert_eq!(rule(&router, &Ask::get("h", "/")), "");
    let json = br#"{"name": "web", "socket": "http-80", "hostname": "h"}"#;
    router.set_listeners(&[ghost_core::wire::decode(json).unwrap()]);
    assert_eq!(rule(&router, &Ask::get("h", "/")), "ns/a/0");
    assert_eq!(rule(&router, &Ask::get("i", "/")), "");
}

#[test]
fn many_candidates_of_one_place_stay_in_order() {
    let rules: Vec<_> = (0..500)
        .map(|n| format!(r#"{{"matches": [{{"headers": [{{"name": "n", "value": "{n}"}}]}}]}}"#))
        .collect();
    let (all, some) = (format!("[{}]", rules.join(",")), format!("[{}]", rules[..100].join(",")));
    let mut router = one_listener(&[("all", &all), ("some", &some)]);
    let ask = |n: usize| Ask::get("h", "/").header("n", n.to_string().as_bytes());
    for n in [0, 63, 64, 99, 499] {
        assert_eq!(rule(&router, &ask(n)), format!("ns/all/{n}"));
    }
    router.remove_route("ns/all");
    assert_eq!(rule(&router, &ask(99)), "ns/some/99");
    assert_eq!(rule(&router, &ask(100)), "");
}

#[test]
fn a_path_of_many_slashes_costs_little() {
    let rules = r#"[{}, {"matches": [{"path": {"type": "regex", "value": "/x/.*"}}]},
                    {"matches": [{"path": {"type": "exact", "value": "////////////////////x"}}]}]"#;
    let router = one_listener(&[("a", rules)]);
    let slashes = "/".repeat(1 << 20);
    let started = std::time::Instant::now();
    assert_eq!(rule(&router, &Ask::get("h", &slashes)), "ns/a/0");
    // Quadratic time would be hours.
    assert!(started.elapsed() < std::time::Duration::from_secs(5));
}

#[test]
fn a_query_is_read_once_for_all_matches() {
    let rules: Vec<_> = (0..1000)
        .map(|n| format!(r#"{{"matches": [{{"query": [{{"name": "q{n}", "value": "1"}}]}}]}}"#))
        .collect();
    let [one, all] = [1, 1000].map(|count| {
        let router = one_listener(&[("a", &format!("[{}]", rules[..count].join(",")))]);
        let target = format!("/?{}", "%61=b&".repeat(5000));
        let started = std::time::Instant::now();
        assert_eq!(rule(&router, &Ask::get("h", &target)), "");
        started.elapsed()
    });
    assert!(all < 100 * one, "{one:?} for one match, {all:?} for a thousand");
}

#[test]
fn looking_up_and_dropping_fit_into_a_small_stack() {
    let rules: Vec<_> = (0..500)
        .map(|depth| {
            let path = "/a".repeat(depth);
            format!(
                r#"{{"matches": [{{"path": {{"type": "prefix", "value": "{path}/b{depth}"}}}},
                                 {{"path": {{"type": "regex", "value": "{path}/[0-9]+"}}}}]}}"#
            )
        })
        .collect();
    let router = one_listener(&[("deep", &format!("[{}]", rules.join(",")))]);
    // varnishd gives its workers 80 KiB, of which others have used some.
    let worker = std::thread::Builder::new().stack_size(48 << 10).spawn(move || {
        let target = format!("{}/7", "/a".repeat(499));
        assert_eq!(rule(&router, &Ask::get("h", &target)), "ns/deep/499");
        drop(router);
    });
    worker.unwrap().join().unwrap();
}
