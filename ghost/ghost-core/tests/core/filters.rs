use ghost_core::redirect::{location, RequestParts};
use ghost_core::wire::{self, PathModifier, PathModifierType, Scheme};
use ghost_core::{rewrite, Match};

use crate::support::compiled_rule;

fn matched(kind: &str, value: &str) -> Match {
    let json = format!(r#"{{"path": {{"type": "{kind}", "value": "{value}"}}}}"#);
    Match::compile(&wire::decode(json.as_bytes()).unwrap()).unwrap()
}

fn rewritten(kind: PathModifierType, value: &str, matched: &Match, path: &str) -> String {
    let modifier = PathModifier { r#type: kind, value: value.into() };
    String::from_utf8(rewrite::path(&modifier, matched, path.as_bytes())).unwrap()
}

#[test]
fn prefix_is_replaced_by_whole_segments() {
    let cases = [
        ("/foo/bar", "/foo", "/xyz", "/xyz/bar"),
        ("/foo/bar", "/foo", "/xyz/", "/xyz/bar"),
        ("/foo/bar", "/foo/", "/xyz", "/xyz/bar"),
        ("/foo/bar", "/foo/", "/xyz/", "/xyz/bar"),
        ("/foo", "/foo", "/xyz", "/xyz"),
        ("/foo/", "/foo", "/xyz", "/xyz/"),
        ("/foo/bar", "/foo", "", "/bar"),
        ("/foo/", "/foo", "", "/"),
        ("/foo", "/foo", "", "/"),
        ("/foo/", "/foo", "/", "/"),
        ("/foo", "/foo", "/", "/"),
        ("/foo/bar", "/foo", "/", "/bar"),
        ("/foo", "/foo", "/xyz/", "/xyz/"),
        ("/foo//bar", "/foo", "/xyz", "/xyz//bar"),
        ("/", "/", "/xyz", "/xyz/"),
        ("/a", "/", "/xyz", "/xyz/a"),
        ("/a", "/", "/", "/a"),
        ("/foo/bar", "/foo", "xyz", "/xyz/bar"),
        ("*", "/", "/xyz", "*"),
    ];
    for (path, prefix, replacement, expected) in cases {
        let got =
            rewritten(PathModifierType::Prefix, replacement, &matched("prefix", prefix), path);
        assert_eq!(got, expected, "{path} {prefix} {replacement}");
    }
}

#[test]
fn exact_path_is_its_own_prefix_and_a_regex_has_none() {
    let prefix = PathModifierType::Prefix;
    assert_eq!(rewritten(prefix, "/xyz", &matched("exact", "/foo"), "/foo"), "/xyz");
    assert_eq!(rewritten(prefix, "/xyz", &matched("regex", "/f.*"), "/foo"), "/foo");
}

#[test]
fn full_path_is_replaced() {
    let full =
        |value| rewritten(PathModifierType::Full, value, &matched("prefix", "/"), "/foo/bar");
    assert_eq!(full("/one/two"), "/one/two");
    assert_eq!(full("/one/"), "/one/");
    assert_eq!(full(""), "/");
    assert_eq!(full("one"), "/one");
}

fn listener(scheme: Scheme, port: u16) -> wire::Listener {
    wire::Listener { name: "web".into(), port, scheme, ..wire::Listener::default() }
}

fn redirected(redirect: &str, scheme: Scheme, port: u16, host: &str) -> String {
    let redirect: wire::Redirect = wire::decode(redirect.as_bytes()).unwrap();
    let request = RequestParts {
        listener: &listener(scheme, port),
        matched: &matched("prefix", "/foo"),
        host: host.as_bytes(),
        path: b"/foo/bar",
        query: Some(b"q=1"),
    };
    String::from_utf8(location(&redirect, &request)).unwrap()
}

#[test]
fn redirect_keeps_what_it_does_not_name() {
    let from = |redirect, port| redirected(redirect, Scheme::Http, port, "a.com");
    assert_eq!(from("{}", 80), "http://a.com/foo/bar?q=1");
    assert_eq!(from(r#"{"hostname": "b.org"}"#, 80), "http://b.org/foo/bar?q=1");
    assert_eq!(from(r#"{"path": {"type": "full", "value": "/x"}}"#, 80), "http://a.com/x?q=1");
    assert_eq!(
        from(r#"{"path": {"type": "prefix", "value": "/x"}}"#, 80),
        "http://a.com/x/bar?q=1"
    );
}

#[test]
fn redirect_without_port_uses_that_of_the_scheme_then_of_the_listener() {
    let cases = [
        ("{}", Scheme::Http, 80, "http://a.com"),
        ("{}", Scheme::Http, 8080, "http://a.com:8080"),
        ("{}", Scheme::Https, 443, "https://a.com"),
        ("{}", Scheme::Https, 8443, "https://a.com:8443"),
        (r#"{"scheme": "https"}"#, Scheme::Http, 8080, "https://a.com"),
        (r#"{"scheme": "http"}"#, Scheme::Https, 8443, "http://a.com"),
        (r#"{"scheme": "https", "port": 443}"#, Scheme::Http, 80, "https://a.com"),
        (r#"{"scheme": "https", "port": 8443}"#, Scheme::Http, 80, "https://a.com:8443"),
        (r#"{"scheme": "https", "port": 80}"#, Scheme::Http, 80, "https://a.com:80"),
        (r#"{"scheme": "http", "port": 443}"#, Scheme::Http, 80, "http://a.com:443"),
        (r#"{"port": 80}"#, Scheme::Http, 8080, "http://a.com"),
        (r#"{"port": 8080}"#, Scheme::Https, 443, "https://a.com:8080"),
        ("{}", Scheme::Http, 0, "http://a.com"),
    ];
    for (redirect, scheme, port, expected) in cases {
        let got = redirected(redirect, scheme, port, "a.com");
        assert_eq!(got, format!("{expected}/foo/bar?q=1"), "{redirect} on {scheme:?} {port}");
    }
}

#[test]
fn redirect_without_any_host_is_a_path() {
    assert_eq!(redirected("{}", Scheme::Http, 8080, ""), "/foo/bar?q=1");
    assert_eq!(redirected("{}", Scheme::Http, 8080, "[::1]"), "http://[::1]:8080/foo/bar?q=1");
}

#[test]
fn redirect_of_the_server_as_a_whole_leads_to_its_root() {
    let to = |redirect: &str, host: &str| {
        let redirect: wire::Redirect = wire::decode(redirect.as_bytes()).unwrap();
        let request = RequestParts {
            listener: &listener(Scheme::Http, 80),
            matched: &matched("prefix", "/"),
            host: host.as_bytes(),
            path: b"*",
            query: None,
        };
        String::from_utf8(location(&redirect, &request)).unwrap()
    };
    let prefix = r#"{"path": {"type": "prefix", "value": "/x"}}"#;
    assert_eq!(to(r#"{"scheme": "https"}"#, "a.com"), "https://a.com/");
    assert_eq!(to("{}", ""), "/");
    assert_eq!(to(prefix, "a.com"), "http://a.com/x/");
    assert_eq!(to(r#"{"path": {"type": "full", "value": "/x"}}"#, "a.com"), "http://a.com/x");
}

#[test]
fn header_modifiers_compile_to_lines() {
    let rule = compiled_rule(
        r#"{"filters": {
            "request": {"set": [{"name": "X-A", "value": "1"}], "remove": ["x-b"]},
            "response": {"add": [{"name": "X-C", "value": ""}]}}}"#,
    );
    let filters = &rule.filters;
    let line = &filters.request.set[0];
    assert_eq!((line.line(), line.name(), line.value()), ("X-A: 1", "X-A", "1"));
    assert_eq!(&*filters.request.remove[0], "x-b");
    assert_eq!(filters.response.add[0].line(), "X-C: ");
    assert!(!filters.request.is_empty() && filters.rewrite.is_none());
}
