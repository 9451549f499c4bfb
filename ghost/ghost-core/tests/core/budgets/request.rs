//! The budget of a request.

use std::borrow::Cow;
use std::cell::Cell;

use ghost_core::{OverBudget, OwnedRequest, Request};

use crate::support::{get, one_listener, request, rule, TestRouter};

/// A pattern that fits no table: all of its states are active on a value of "a".
const SIMULATED: &str = ".*a[a-z]{15}-";

/// One route for each of `count` matches: together they exceed the budget of one route.
fn router(count: usize, a_match: impl Fn(usize) -> String) -> TestRouter {
    let rules = |n| format!(r#"[{{"matches": [{}]}}]"#, a_match(n));
    let routes: Vec<_> = (0..count).map(|n| (format!("r{n}"), rules(n))).collect();
    let routes: Vec<_> = routes.iter().map(|(name, rules)| (&**name, &**rules)).collect();
    one_listener(&routes)
}

fn value(kind: &str, pattern: &str) -> String {
    format!(r#"{{"{kind}": [{{"name": "x", "type": "regex", "value": "{pattern}"}}]}}"#)
}

fn path(pattern: &str) -> String {
    format!(r#"{{"path": {{"type": "regex", "value": "{pattern}"}}}}"#)
}

fn over(router: &TestRouter, request: &OwnedRequest) -> Option<OverBudget> {
    assert_eq!(router.explain(request).over_budget, router.find(request).err());
    router.find(request).err()
}

#[test]
fn header_that_takes_too_many_steps_is_an_error() {
    let header = "a".repeat(30 << 10);
    for pattern in [SIMULATED, ".*b", "(a|b|c)+x"] {
        let router = router(127, |n| value("headers", &format!("{pattern}{n}")));
        let request = |value: &str| get("h", "/").with_header("x", value);
        assert_eq!(over(&router, &request(&header)), Some(OverBudget::Header), "{pattern}");
        assert_eq!(over(&router, &request(&header[..50])), None, "{pattern}");
        assert_eq!(over(&router, &get("h", "/")), None, "{pattern}");
    }
}

#[test]
fn path_or_query_that_takes_too_many_steps_is_an_error() {
    let long = "a".repeat(30 << 10);
    let paths = router(127, |n| path(&format!("/.*b{n}")));
    assert_eq!(over(&paths, &get("h", &format!("/{long}"))), Some(OverBudget::Target));
    assert_eq!(over(&paths, &get("h", &format!("/?x={long}"))), None);
    let queries = router(127, |n| value("query", &format!(".*b{n}")));
    assert_eq!(over(&queries, &get("h", &format!("/?x={long}"))), Some(OverBudget::Target));
    assert_eq!(over(&queries, &get("h", &format!("/{long}"))), None);
}

/// Many routes of other tenants for one path, which compare headers or parameters and none of
/// whose matches has a pattern.
#[test]
fn matches_without_a_pattern_take_steps_too() {
    let exact = |kind: &str| {
        let conditions: Vec<_> =
            (0..16).map(|n| format!(r#"{{"name": "x-{n}", "value": "v"}}"#)).collect();
        let conditions = conditions.join(",");
        router(2_000, move |n| {
            format!(r#"{{"{kind}": [{conditions}, {{"name": "n", "value": "{n}"}}]}}"#)
        })
    };
    let with_all = (0..16).fold(get("h", "/"), |got, n| got.with_header(&format!("x-{n}"), "v"));
    let headers = exact("headers");
    assert_eq!(over(&headers, &with_all), Some(OverBudget::Header));
    assert_eq!(over(&headers, &get("h", "/")), None);
    let query: Vec<_> = (0..16).map(|n| format!("x-{n}=v")).collect();
    let queries = exact("query");
    let all = get("h", &format!("/?{}", query.join("&")));
    assert_eq!(over(&queries, &all), Some(OverBudget::Target));
    assert_eq!(over(&queries, &get("h", "/")), None);
}

#[test]
fn ordinary_routes_take_a_part_of_the_budget() {
    let conditions: Vec<_> =
        (0..16).map(|n| format!(r#"{{"name": "x-{n}", "value": "v"}}"#)).collect();
    let conditions = conditions.join(",");
    let largest = router(128, |n| {
        format!(r#"{{"headers": [{conditions}], "query": [{{"name": "q{n}", "value": "1"}}]}}"#)
    });
    let with_all = (0..16).fold(get("h", "/"), |got, n| got.with_header(&format!("x-{n}"), "v"));
    assert_eq!(over(&largest, &with_all), None);
    let paths = router(10_000, |n| format!(r#"{{"path": {{"type": "prefix", "value": "/{n}"}}}}"#));
    assert_eq!(over(&paths, &get("h", "/9999")), None);
    let tenants =
        router(10_000, |n| format!(r#"{{"headers": [{{"name": "x-tenant", "value": "{n}"}}]}}"#));
    assert_eq!(over(&tenants, &get("h", "/").with_header("x-tenant", "none")), None);
}

#[test]
fn pattern_spends_only_the_bytes_that_it_reads() {
    let header = "a".repeat(30 << 10);
    // Each is rejected by its first byte, by its literal prefix, or after a hundred bytes.
    for pattern in ["[b-z].*", "b.*", "[a-z]{1,100}"] {
        let router = router(500, |n| value("headers", &format!("{pattern}(|{n})")));
        assert_eq!(over(&router, &get("h", "/").with_header("x", header.as_str())), None);
    }
}

#[test]
fn patterns_that_read_nothing_take_steps_too() {
    // Finding thousands of patterns in memory takes milliseconds.
    let pattern = |n| if n % 2 == 0 { format!("b{n}") } else { format!("[b-z]{n}") };
    let router = router(6_000, |n| value("headers", &pattern(n)));
    assert_eq!(over(&router, &get("h", "/").with_header("x", "a")), Some(OverBudget::Header));
}

#[test]
fn large_table_takes_more_steps_because_it_waits_for_memory() {
    let long = "ab".repeat(15 << 10);
    let padded = |bits, n| format!("{}|(?:a|b)*a(?:a|b){{{bits}}}x{n}", "q".repeat(80));
    for (bits, expected) in [(5, None), (11, Some(OverBudget::Header))] {
        let router = router(10, |n| value("headers", &padded(bits, n)));
        assert_eq!(over(&router, &get("h", "/").with_header("x", long.as_str())), expected);
    }
}

/// A request that counts how often its headers are read.
struct Counting(OwnedRequest, Cell<usize>);

impl Request for Counting {
    fn socket(&self) -> &str {
        self.0.socket()
    }
    fn host(&self) -> &[u8] {
        self.0.host()
    }
    fn method(&self) -> &[u8] {
        self.0.method()
    }
    fn path(&self) -> &[u8] {
        self.0.path()
    }
    fn query(&self) -> Option<&[u8]> {
        self.0.query()
    }
    fn header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.1.set(self.1.get() + 1);
        self.0.header(name)
    }
}

#[test]
fn lines_of_a_header_are_joined_once_for_all_matches() {
    let router = router(100, |n| value("headers", &format!("b,c{n}?")));
    let lines = get("h", "/").with_header("x", "b").with_header("x", "c7");
    assert_eq!(rule(&router, &lines), "ns/r7/0");
    let counting = Counting(lines, Cell::new(0));
    assert!(router.find(&counting).is_ok_and(|found| found.is_some()));
    assert_eq!(counting.1.get(), 1);
}

#[test]
fn patterns_behind_the_rule_that_serves_spend_nothing() {
    let rules = format!(
        r#"[{{"name": "first", "matches": [{{"path": {{"type": "exact", "value": "/"}}}}]}}, {{"matches": [{}]}}]"#,
        value("headers", SIMULATED)
    );
    let router = one_listener(&[("r", &rules)]);
    let long = get("h", "/").with_header("x", "a".repeat(30 << 10));
    assert_eq!(rule(&router, &long), "ns/r/first");
}

#[test]
fn preflight_and_the_request_that_it_announces_share_a_budget() {
    // Half of the budget and more for each of the two lookups.
    let router = router(40, |n| value("headers", &format!(".*b{n}")));
    let preflight = |method| {
        request(method, "h", "/")
            .with_header("x", "a".repeat(30 << 10))
            .with_header("origin", "https://a.org")
            .with_header("access-control-request-method", "PUT")
    };
    assert_eq!(over(&router, &preflight("GET")), None);
    assert_eq!(over(&router, &preflight("OPTIONS")), Some(OverBudget::Header));
}

#[test]
fn error_names_the_part_the_limit_and_the_remedy() {
    assert_eq!((OverBudget::Header.status(), OverBudget::Target.status()), (431, 414));
    assert_eq!(
        OverBudget::Header.to_string(),
        "routes and their cache policy take more than 1500000 steps for one of its headers; \
         shorten it, or use fewer matches, regular expressions or globs"
    );
}
