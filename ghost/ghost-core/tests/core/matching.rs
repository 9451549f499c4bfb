//! Matching and precedence, case by case.

use crate::support::{get, one_listener, request, router_from, rule, served};

/// Check which rule serves each target, in a route with one rule per path `type value`.
fn served_paths(rules: &[&str], cases: &[(&str, &str)]) {
    let rules: Vec<_> = rules
        .iter()
        .map(|path| {
            let (kind, value) = path.split_once(' ').unwrap();
            format!(
                r#"{{"name": "{kind} {value}", "matches": [{{"path": {{"type": "{kind}", "value": "{value}"}}}}]}}"#
            )
        })
        .collect();
    let router = one_listener(&[("r", &format!("[{}]", rules.join(",")))]);
    for (target, expected) in cases {
        let method = if *target == "*" { "OPTIONS" } else { "GET" };
        let got = rule(&router, &request(method, "a.com", target));
        let expected = if expected.is_empty() { String::new() } else { format!("ns/r/{expected}") };
        assert_eq!(got, expected, "{target}");
    }
}

#[test]
fn exact_path_wins_over_regex_over_longest_prefix() {
    served_paths(
        &[
            "prefix /",
            "prefix /one",
            "exact /one",
            "prefix /one/two",
            "exact /",
            "regex /one/[0-9]+.*",
            "regex /.*",
            "regex /.*/[0-9]+.*",
            "exact /one/2",
        ],
        &[
            ("/one/2", "exact /one/2"),
            ("/one/22", "regex /one/[0-9]+.*"),
            ("/two/22", "regex /.*/[0-9]+.*"),
            ("/one/two", "regex /.*"),
            ("*", "prefix /"),
        ],
    );
}

#[test]
fn longest_prefix_wins_where_no_regex_matches() {
    served_paths(
        &["regex /two/.*", "prefix /", "prefix /one", "exact /one", "prefix /one/two", "exact /"],
        &[
            ("/one", "exact /one"),
            ("/one/", "prefix /one"),
            ("/one/two", "prefix /one/two"),
            ("/one/twofold", "prefix /one"),
            ("/one/two/three?q", "prefix /one/two"),
            ("/", "exact /"),
            ("/two", "prefix /"),
            ("*", "prefix /"),
        ],
    );
}

#[test]
fn prefix_matches_whole_segments_only() {
    served_paths(
        &["prefix /abc/", "exact /x/", "prefix /a//b"],
        &[
            ("/abc", "prefix /abc/"),
            ("/abc/", "prefix /abc/"),
            ("/abc/def", "prefix /abc/"),
            ("/abcd", ""),
            ("/ABC", ""),
            ("/x", ""),
            ("/x/", "exact /x/"),
            ("/x/y", ""),
            ("/a/b", ""),
            ("/a//b/c", "prefix /a//b"),
            ("//abc", ""),
            ("/abc%2Fdef", ""),
        ],
    );
}

#[test]
fn regex_is_found_by_its_literal_prefix() {
    served_paths(
        &[
            "regex /api/v[0-9]+/x",
            "regex /api/.*/x",
            "regex (?i)/API/y",
            "regex /api",
            "regex /(a|b)/c",
        ],
        &[
            ("/api/v1/x", "regex /api/v[0-9]+/x"),
            ("/api/va/x", "regex /api/.*/x"),
            ("/api/a/b/x", "regex /api/.*/x"),
            ("/Api/Y", "regex (?i)/API/y"),
            ("/api", "regex /api"),
            ("/api/", ""),
            ("/b/c", "regex /(a|b)/c"),
        ],
    );
}

#[test]
fn what_is_left_of_an_invalid_regex_hides_nothing_and_keeps_its_index() {
    let router = one_listener(&[
        (
            "old",
            r#"[{"approximate": true, "status": 500, "matches": [{"path": {"type": "regex", "value": "/.*"}}]},
                {"matches": [{"path": {"type": "exact", "value": "/a"}}]}]"#,
        ),
        ("young", r#"[{"matches": [{"path": {"type": "prefix", "value": "/b"}}]}]"#),
    ]);
    assert_eq!(rule(&router, &get("h", "/a")), "ns/old/1");
    assert_eq!(rule(&router, &get("h", "/b")), "ns/young/0");
    assert_eq!(rule(&router, &get("h", "/c")), "ns/old/0");
}

#[test]
fn valid_rule_wins_a_tie_with_an_approximate_one_of_its_route() {
    let router = one_listener(&[("a", r#"[{"approximate": true}, {}]"#), ("b", "[{}]")]);
    assert_eq!(rule(&router, &get("h", "/")), "ns/a/1");
}

#[test]
fn paths_deeper_than_the_index_are_distinguished() {
    let deep = "/a".repeat(20);
    served_paths(
        &[
            &format!("exact {deep}/x"),
            &format!("exact {deep}/y"),
            &format!("prefix {deep}"),
            &format!("prefix {deep}/b"),
            &format!("regex {deep}/c.*"),
        ],
        &[
            (&format!("{deep}/x"), &format!("exact {deep}/x")),
            (&format!("{deep}/y"), &format!("exact {deep}/y")),
            (&format!("{deep}/b/c"), &format!("prefix {deep}/b")),
            (&format!("{deep}/cc"), &format!("regex {deep}/c.*")),
            (&format!("{deep}/d"), &format!("prefix {deep}")),
            (&"/a".repeat(18), ""),
        ],
    );
}

#[test]
fn equal_paths_are_decided_by_method_then_headers_then_query() {
    let router = one_listener(&[(
        "r",
        r#"[{"name": "plain"},
            {"name": "query", "matches": [{"query": [{"name": "q", "value": "1"}, {"name": "p", "value": "1"}]}]},
            {"name": "header", "matches": [{"headers": [{"name": "h", "value": "1"}]}]},
            {"name": "headers", "matches": [{"headers": [{"name": "h", "value": "1"}, {"name": "i", "value": "1"}]}]},
            {"name": "method", "matches": [{"method": "GET"}]}]"#,
    )]);
    let ask = |method: &str| request(method, "a", "/?q=1&p=1");
    assert_eq!(
        rule(&router, &ask("GET").with_header("h", b"1").with_header("i", b"1")),
        "ns/r/method"
    );
    assert_eq!(
        rule(&router, &ask("PUT").with_header("h", b"1").with_header("i", b"1")),
        "ns/r/headers"
    );
    assert_eq!(rule(&router, &ask("PUT").with_header("h", b"1")), "ns/r/header");
    assert_eq!(rule(&router, &ask("PUT")), "ns/r/query");
    assert_eq!(rule(&router, &ask("get")), "ns/r/query");
    assert_eq!(rule(&router, &request("PUT", "a", "/")), "ns/r/plain");
}

#[test]
fn matches_of_a_rule_are_ranked_separately() {
    let router = one_listener(&[(
        "r",
        r#"[{"matches": [{"path": {"type": "prefix", "value": "/a"}},
                         {"path": {"type": "prefix", "value": "/a"}, "method": "PUT"}]}]"#,
    )]);
    assert_eq!(served(&router, &get("h", "/a")), Some(("ns/r/0".into(), 0)));
    assert_eq!(served(&router, &request("PUT", "h", "/a")), Some(("ns/r/0".into(), 1)));
}

#[test]
fn repeated_headers_are_compared_as_one_value() {
    let router = one_listener(&[(
        "r",
        r#"[{"matches": [{"headers": [{"name": "x", "value": "a,b"}]}]},
            {"matches": [{"headers": [{"name": "y", "value": "a.*", "type": "regex"}]}]}]"#,
    )]);
    assert_eq!(
        rule(&router, &get("h", "/").with_header("X", b"a").with_header("x", b"b")),
        "ns/r/0"
    );
    assert_eq!(rule(&router, &get("h", "/").with_header("x", b"a")), "");
    assert_eq!(rule(&router, &get("h", "/").with_header("y", b"a\xff")), "ns/r/1");
    assert_eq!(rule(&router, &get("h", "/").with_header("y", b"ba")), "");
}

#[test]
fn query_parameters_are_compared_decoded_and_the_first_counts() {
    let router = one_listener(&[(
        "r",
        r#"[{"name": "a b", "matches": [{"query": [{"name": "k y", "value": "a b"}]}]},
            {"name": "empty", "matches": [{"query": [{"name": "e", "value": ".*", "type": "regex"}]}]},
            {"name": "percent", "matches": [{"query": [{"name": "p", "value": "50%"}]}]}]"#,
    )]);
    let cases = [
        ("/?k+y=a%20b", "ns/r/a b"),
        ("/?k%20y=a+b&k+y=c", "ns/r/a b"),
        ("/?k+y=c&k+y=a+b", ""),
        ("/?&&e", "ns/r/empty"),
        ("/?e=", "ns/r/empty"),
        ("/?=e", ""),
        ("/?E", ""),
        ("/?", ""),
        ("/", ""),
        ("/?p=50%", "ns/r/percent"),
        ("/?p=50%25", "ns/r/percent"),
        ("/?p=50%2", ""),
        ("/?k%20y=a%2Bb", ""),
    ];
    for (target, expected) in cases {
        assert_eq!(rule(&router, &get("h", target)), expected, "{target}");
        // The router indexes a long query instead of scanning it.
        let mark = if target.contains('?') { "&" } else { "?" };
        let longer = format!("{target}{mark}{}", "o%74her=1&&o&".repeat(50));
        assert_eq!(rule(&router, &get("h", &longer)), expected, "{longer}");
    }
}

#[test]
fn equal_matches_are_decided_by_age_then_name_of_the_route() {
    let route = |namespace: &str, name: &str, created: i64| {
        format!(
            r#"{{"namespace": "{namespace}", "name": "{name}", "created": {created},
                "attachments": [{{"listener": "web"}}], "rules": [{{}}, {{}}]}}"#
        )
    };
    let serving = |routes: &[String]| {
        let router = router_from(&format!(
            r#"{{"version": 2, "listeners": [{{"name": "web", "socket": "*"}}], "routes": [{}]}}"#,
            routes.join(",")
        ));
        rule(&router, &get("h", "/"))
    };
    assert_eq!(serving(&[route("a", "a", 2), route("z", "z", 1)]), "z/z/0");
    assert_eq!(serving(&[route("b", "a", 1), route("a", "b", 1)]), "a/b/0");
    assert_eq!(serving(&[route("a", "c", 1), route("a", "b", 1)]), "a/b/0");
}

#[test]
fn exact_hostname_wins_over_longest_wildcard_over_any() {
    let router = router_from(
        r#"{"version": 2, "listeners": [{"name": "web", "socket": "http-80"}], "routes": [
            {"namespace": "n", "name": "any", "attachments": [{"listener": "web"}], "rules": [{}]},
            {"namespace": "n", "name": "com", "attachments": [{"listener": "web", "hostnames": ["*.com"]}], "rules": [{}]},
            {"namespace": "n", "name": "a", "attachments": [{"listener": "web", "hostnames": ["*.a.com"]}],
             "rules": [{"matches": [{"path": {"type": "prefix", "value": "/a"}}]}]},
            {"namespace": "n", "name": "www", "attachments": [{"listener": "web", "hostnames": ["www.a.com"]}],
             "rules": [{"matches": [{"path": {"type": "prefix", "value": "/www"}}]}]}]}"#,
    );
    let cases = [
        ("www.a.com", "/www", "n/www/0"),
        ("www.a.com", "/a", "n/a/0"),
        ("www.a.com", "/x", "n/com/0"),
        ("x.y.a.com", "/a", "n/a/0"),
        ("a.com", "/a", "n/com/0"),
        ("com", "/", "n/any/0"),
        ("b.org", "/", "n/any/0"),
        ("", "/", "n/any/0"),
    ];
    for (host, target, expected) in cases {
        assert_eq!(rule(&router, &get(host, target)), expected, "{host}{target}");
    }
}

#[test]
fn request_is_served_by_routes_of_one_listener_only() {
    let router = router_from(
        r#"{"version": 2, "listeners": [
                {"name": "any", "socket": "http-80"},
                {"name": "wild", "socket": "http-80", "hostname": "*.a.com"},
                {"name": "www", "socket": "http-80", "hostname": "www.a.com"},
                {"name": "rest", "socket": "*"}],
            "routes": [
                {"namespace": "n", "name": "any", "attachments": [{"listener": "any"}], "rules": [{}]},
                {"namespace": "n", "name": "wild", "attachments": [{"listener": "wild", "hostnames": ["*.a.com"]}], "rules": [{}]},
                {"namespace": "n", "name": "rest", "attachments": [{"listener": "rest"}], "rules": [{}]}]}"#,
    );
    assert_eq!(rule(&router, &get("www.a.com", "/")), "");
    assert_eq!(rule(&router, &get("x.a.com", "/")), "n/wild/0");
    assert_eq!(rule(&router, &get("a.com", "/")), "n/any/0");
    assert_eq!(rule(&router, &get("www.a.com", "/").with_socket("http-81")), "n/rest/0");
    assert_eq!(router.listener("http-80", b"www.a.com").unwrap().name, "www");
    assert!(router_from(r#"{"version": 2}"#).listener("http-80", b"a").is_none());
}

#[test]
fn hostname_wider_than_its_listener_matches_no_other_hosts() {
    let router = router_from(
        r#"{"version": 2, "listeners": [
                {"name": "www", "socket": "http-80", "hostname": "www.a.com"},
                {"name": "wild", "socket": "http-80", "hostname": "*.a.com"}],
            "routes": [
                {"namespace": "n", "name": "any", "attachments": [{"listener": "www"}], "rules": [{}]},
                {"namespace": "n", "name": "wide", "attachments": [{"listener": "www", "hostnames": ["*.com"]}],
                 "rules": [{"matches": [{"path": {"type": "prefix", "value": "/wide"}}]}]}]}"#,
    );
    assert_eq!(rule(&router, &get("www.a.com", "/wide")), "n/wide/0");
    assert_eq!(rule(&router, &get("www.a.com", "/")), "n/any/0");
    for host in ["x.a.com", "a.com", "b.org", ""] {
        assert_eq!(rule(&router, &get(host, "/wide")), "", "{host}");
    }
}

#[test]
fn rules_of_equal_or_numeric_names_have_distinct_identities() {
    let rule = |name: &str, path: &str| {
        format!(
            r#"{{"name": {name}, "matches": [{{"path": {{"type": "exact", "value": "{path}"}}}}]}}"#
        )
    };
    let rules = [
        rule(r#""2""#, "/0"),
        rule(r#""tea""#, "/1"),
        rule("null", "/2"),
        rule(r#""same""#, "/3"),
        rule(r#""same""#, "/4"),
    ];
    let router = one_listener(&[("r", &format!("[{}]", rules.join(",")))]);
    let served: Vec<_> =
        (0..5).map(|n| crate::support::rule(&router, &get("h", &format!("/{n}")))).collect();
    assert_eq!(served, ["ns/r/0", "ns/r/tea", "ns/r/2", "ns/r/3", "ns/r/4"]);
}
