//! The budget of a request.

use ghost_core::{OverBudget, OwnedRequest};

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
        "the regular expressions of routes take more than 1500000 steps for one of its headers; \
         shorten it, or use fewer regular expressions"
    );
}
