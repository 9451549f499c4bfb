use ghost_core::{Criterion, Loss, OwnedRequest, Unmet};

use crate::support::{get, one_listener, router_from, TestRouter};

fn losses(router: &TestRouter, request: &OwnedRequest) -> Vec<String> {
    let explained = router.explain(request);
    let line =
        |it: &ghost_core::RunnerUp<'_, String>| format!("{}: {}", it.considered.payload, it.loss);
    explained.runners_up.iter().map(line).collect()
}

#[test]
fn each_runner_up_has_the_reason_why_it_lost() {
    let rules = r#"[{"name": "winner", "matches": [{"path": {"type": "prefix", "value": "/a"}, "method": "GET"}]},
        {"name": "method", "matches": [{"path": {"type": "prefix", "value": "/a"}, "method": "PUT"}]},
        {"name": "fewer", "matches": [{"path": {"type": "prefix", "value": "/a"}}]},
        {"name": "header", "matches": [{"path": {"type": "exact", "value": "/a"}, "headers": [{"name": "x", "value": "1"}]}]},
        {"name": "query", "matches": [{"path": {"type": "exact", "value": "/a"}, "query": [{"name": "q", "value": "1"}]}]},
        {"name": "shorter"},
        {"name": "regex", "matches": [{"path": {"type": "regex", "value": "/a/.+"}}]},
        {"name": "other", "matches": [{"path": {"type": "regex", "value": ".*b"}}]},
        {"name": "invalid", "approximate": true, "matches": [{"path": {"type": "regex", "value": "/.*"}}]},
        {"name": "elsewhere", "matches": [{"path": {"type": "prefix", "value": "/b"}}]}]"#;
    let router = one_listener(&[("r", rules), ("s", "[{}]")]);
    let request = get("h", "/a");
    let explained = router.explain(&request);
    assert_eq!(explained.listener.unwrap().name, "web");
    assert_eq!(explained.winner.as_ref().unwrap().payload, "ns/r/winner");
    assert_eq!(
        losses(&router, &request),
        [
            "ns/r/header: header x does not match",
            "ns/r/query: query parameter q does not match",
            "ns/r/regex: its path does not match",
            "ns/r/other: its path does not match",
            "ns/r/method: it takes the method PUT only",
            "ns/r/fewer: the winner comes first: it asks for a method",
            "ns/r/shorter: the winner comes first: its prefix is longer",
            "ns/s/0: the winner comes first: its prefix is longer",
            "ns/r/invalid: the winner comes first: the other is what is left of an invalid match",
        ]
    );
    assert_eq!(explained.runners_up[0].loss, Loss::Unmet(Unmet::Header("x")));
    assert_eq!(explained.runners_up[5].loss, Loss::Outranked(Criterion::Method));
}

#[test]
fn paths_are_explained_by_type_and_length() {
    let rules = r#"[{"name": "prefix", "matches": [{"path": {"type": "prefix", "value": "/abc"}}]},
        {"name": "short", "matches": [{"path": {"type": "regex", "value": "/.*"}}]},
        {"name": "long", "matches": [{"path": {"type": "regex", "value": "/[a-z]*"}}]},
        {"name": "left", "approximate": true, "matches": [{"path": {"type": "prefix", "value": "/abc"}}]}]"#;
    let router = one_listener(&[("r", rules)]);
    let request = get("h", "/abc");
    assert_eq!(router.explain(&request).winner.unwrap().payload, "ns/r/long");
    let by_type =
        "the winner comes first: an exact path comes before a regex, and both before a prefix";
    assert_eq!(
        losses(&router, &request),
        [
            "ns/r/short: the winner comes first: its regex is longer".to_owned(),
            format!("ns/r/prefix: {by_type}"),
            format!("ns/r/left: {by_type}"),
        ]
    );
    let other = get("h", "/abc/1");
    let rules = rules.replace("/.*", "/x").replace("/[a-z]*", "/y");
    assert_eq!(
        losses(&one_listener(&[("r", &rules)]), &other)[2..],
        ["ns/r/left: the winner comes first: the other is what is left of an invalid match"]
    );
}

#[test]
fn ties_are_explained_by_age_name_and_order() {
    let router = router_from(
        r#"{"version": 2, "listeners": [{"name": "web", "socket": "*"}], "routes": [
            {"namespace": "n", "name": "a", "attachments": [{"listener": "web"}], "rules": [{}, {}]},
            {"namespace": "n", "name": "b", "attachments": [{"listener": "web"}], "rules": [{}]},
            {"namespace": "n", "name": "0", "created": 5, "attachments": [{"listener": "web"}], "rules": [{}]}]}"#,
    );
    assert_eq!(
        losses(&router, &get("h", "/")),
        [
            "n/a/1: the winner comes first: it stands earlier in the same route",
            "n/b/0: the winner comes first: its route is first by namespace and name",
            "n/0/0: the winner comes first: its route is older",
        ]
    );
}

#[test]
fn runner_up_has_its_less_specific_hostname() {
    let router = router_from(
        r#"{"version": 2, "listeners": [{"name": "web", "socket": "*"}], "routes": [
            {"namespace": "n", "name": "a", "attachments": [{"listener": "web", "hostnames": ["*.a.com", "x.a.com", "*"]}], "rules": [{}]}]}"#,
    );
    let request = get("x.a.com", "/");
    let explained = router.explain(&request);
    let hostnames: Vec<_> =
        explained.runners_up.iter().map(|it| it.considered.hostname.as_str()).collect();
    assert_eq!(explained.winner.unwrap().hostname, "x.a.com");
    assert_eq!(hostnames, ["*.a.com", "*"]);
}

#[test]
fn explanation_without_routes_has_at_most_a_listener() {
    let router = one_listener(&[]);
    assert!(router.explain(&get("h", "/")).listener.is_some());
    let elsewhere = get("h", "/").with_socket("http-81");
    assert!(router.explain(&elsewhere).listener.is_none());
}
