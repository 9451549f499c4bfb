//! CORS: what each origin is allowed, and which rule answers a preflight.

use ghost_core::cors::Preflight;
use ghost_core::Cors;
use proptest::prelude::*;

use crate::support::{compiled_rule, one_listener, request};

fn cors(json: &str) -> Cors {
    compiled_rule(&format!(r#"{{"cors": {json}}}"#)).cors.clone().unwrap()
}

fn text(headers: &[(&str, &[u8])]) -> Vec<String> {
    let line = |(name, value): &(&str, &[u8])| {
        let name = name.strip_prefix("Access-Control-").unwrap();
        format!("{name}: {}", String::from_utf8_lossy(value))
    };
    headers.iter().map(line).collect()
}

fn response(cors: &Cors, origin: &str) -> Vec<String> {
    text(&cors.response_headers(origin.as_bytes()).collect::<Vec<_>>())
}

fn preflight(cors: &Cors, origin: &str, method: &str, headers: Option<&str>) -> Vec<String> {
    let (origin, method) = (origin.as_bytes(), method.as_bytes());
    let preflight = Preflight { origin, method, headers: headers.map(str::as_bytes) };
    text(&cors.preflight_headers(&preflight).collect::<Vec<_>>())
}

#[test]
fn origin_is_allowed_if_scheme_host_and_port_match() {
    let some = cors(
        r#"{"origins": ["https://www.foo.com", "https://*.bar.com", "http://a.org:8080", "http://*:81"]}"#,
    );
    let cases = [
        ("https://www.foo.com", true),
        ("https://www.foo.com:443", true),
        ("HTTPS://WWW.foo.com", true),
        ("https://www.foo.com:8443", false),
        ("http://www.foo.com", false),
        ("https://foo.com", false),
        ("https://www.bar.com", true),
        ("https://a.b.bar.com", true),
        ("https://bar.com", false),
        ("https://.bar.com", false),
        ("https://evilbar.com", false),
        ("https://www.bar.com.evil.org", false),
        ("http://a.org:8080", true),
        ("http://a.org", false),
        ("http://anything:81", true),
        ("http://[::1]:81", true),
        ("http://[::1]", false),
        ("ftp://www.foo.com", false),
        ("https://", false),
        ("https://www.foo.com:99999", false),
        ("null", false),
        ("", false),
    ];
    for (origin, allowed) in cases {
        let expected: Vec<_> =
            allowed.then(|| format!("Allow-Origin: {origin}")).into_iter().collect();
        assert_eq!(response(&some, origin), expected, "{origin}");
        assert_eq!(preflight(&some, origin, "GET", None).is_empty(), !allowed, "{origin}");
    }
    assert!(some.varies_by_origin());
}

#[test]
fn any_origin_is_a_star_unless_credentials_are_allowed() {
    let open = cors(r#"{"origins": ["*"], "expose": ["*"]}"#);
    assert_eq!(response(&open, "https://a.org:1"), ["Allow-Origin: *", "Expose-Headers: *"]);
    assert!(!open.varies_by_origin());
    let with_credentials = cors(r#"{"origins": ["*"], "credentials": true, "expose": ["*"]}"#);
    assert_eq!(
        response(&with_credentials, "https://a.org:1"),
        ["Allow-Origin: https://a.org:1", "Allow-Credentials: true"]
    );
    assert!(with_credentials.varies_by_origin());
}

#[test]
fn preflight_response_lists_what_is_allowed() {
    let some = cors(
        r#"{"origins": ["https://a.org"], "methods": ["GET", "OPTIONS"], "headers": ["x-1", "x-2"],
            "expose": ["x-3", "x-4"], "credentials": true, "maxAge": 3600}"#,
    );
    assert_eq!(
        preflight(&some, "https://a.org", "PUT", Some("x-9")),
        [
            "Allow-Origin: https://a.org",
            "Allow-Credentials: true",
            "Expose-Headers: x-3, x-4",
            "Allow-Methods: GET, OPTIONS",
            "Allow-Headers: x-1, x-2",
            "Max-Age: 3600"
        ]
    );
}

#[test]
fn wildcards_name_what_the_preflight_asked_for() {
    let every = r#""origins": ["https://a.org"], "methods": ["*"], "headers": ["*"]"#;
    let (plain, with_credentials) =
        (cors(&format!("{{{every}}}")), cors(&format!(r#"{{{every}, "credentials": true}}"#)));
    let parts = |lines: Vec<String>| {
        lines
            .into_iter()
            .filter(|line| line.contains("Methods") || line.contains("Allow-Headers"))
            .collect::<Vec<_>>()
    };
    for cors in [&plain, &with_credentials] {
        assert_eq!(
            parts(preflight(cors, "https://a.org", "PUT", Some("x-1, authorization"))),
            ["Allow-Methods: PUT", "Allow-Headers: x-1, authorization"]
        );
    }
    assert_eq!(
        parts(preflight(&plain, "https://a.org", "two words", None)),
        ["Allow-Methods: *", "Allow-Headers: *"]
    );
    assert_eq!(parts(preflight(&with_credentials, "https://a.org", "two words", None)), [""; 0]);
}

#[test]
fn empty_cors_allows_nothing() {
    let nothing = cors("{}");
    assert_eq!(response(&nothing, "https://a.org"), [""; 0]);
    let bare = cors(r#"{"origins": ["*"]}"#);
    assert_eq!(
        preflight(&bare, "https://a.org", "PUT", Some("x-1")),
        ["Allow-Origin: *", "Max-Age: 5"]
    );
}

proptest! {
    /// Only the suffix with its dot counts.
    #[test]
    fn wildcard_origin_matches_any_labels(labels in "[a-z]{1,5}(\\.[a-z]{1,5}){0,3}", other in "[a-z.]{0,12}") {
        let some = cors(r#"{"origins": ["https://*.example.com"]}"#);
        let origin = format!("https://{labels}.example.com");
        prop_assert_eq!(response(&some, &origin), [format!("Allow-Origin: {origin}")]);
        let other_origin = format!("https://{other}example.com");
        let allowed = other.len() > 1 && other.ends_with('.');
        prop_assert_eq!(!response(&some, &other_origin).is_empty(), allowed);
    }

    /// Whatever Origin a client sends, the response names that one, "*", or none.
    #[test]
    fn response_never_names_another_origin(origin in "\\PC*") {
        let some = cors(r#"{"origins": ["https://a.org", "https://*.b.org"], "credentials": true}"#);
        for line in response(&some, &origin) {
            let same = format!("Allow-Origin: {origin}");
            prop_assert!([same.as_str(), "Allow-Credentials: true"].contains(&line.as_str()));
        }
    }
}

// -- which rule answers ------------------------------------------------------------------

/// The identity of the rule that serves, and whether it answers a preflight.
fn served(rules: &str, method: &str, announced: Option<&str>) -> Option<(String, bool)> {
    let router = one_listener(&[("r", rules)]);
    let mut sent = request(method, "a.com", "/");
    if let Some(announced) = announced {
        sent = sent
            .with_header("origin", b"https://a.org")
            .with_header("access-control-request-method", announced.as_bytes());
    }
    let found = router.find(&sent).unwrap().map(|found| (found.payload.clone(), found.preflight));
    let explained = router.explain(&sent);
    let winner = explained.winner.map(|winner| winner.payload.clone());
    assert_eq!(winner.map(|winner| (winner, explained.preflight)), found);
    found
}

#[test]
fn preflight_is_answered_by_the_rule_of_the_announced_request() {
    let rules = r#"[
        {"name": "get", "matches": [{"method": "GET"}], "status": 200, "cors": {}},
        {"name": "put", "matches": [{"method": "PUT"}], "status": 200}]"#;
    let found = |method, announced| served(rules, method, announced);
    assert_eq!(found("OPTIONS", Some("GET")), Some(("ns/r/get".into(), true)));
    assert_eq!(found("OPTIONS", Some("PUT")), None);
    assert_eq!(found("OPTIONS", None), None);
    assert_eq!(found("GET", Some("GET")), Some(("ns/r/get".into(), false)));
}

#[test]
fn rule_for_options_wins_over_cors() {
    let rules = r#"[
        {"name": "options", "matches": [{"method": "OPTIONS"}], "status": 200},
        {"name": "any", "status": 200, "cors": {}}]"#;
    assert_eq!(served(rules, "OPTIONS", Some("GET")), Some(("ns/r/options".into(), false)));
    assert_eq!(served(rules, "GET", None), Some(("ns/r/any".into(), false)));
}

#[test]
fn rule_for_any_method_does_not_hide_the_one_with_cors() {
    let rules = r#"[
        {"name": "get", "matches": [{"method": "GET"}], "status": 200, "cors": {}},
        {"name": "any", "status": 200}]"#;
    assert_eq!(served(rules, "OPTIONS", Some("GET")), Some(("ns/r/get".into(), true)));
    assert_eq!(served(rules, "OPTIONS", Some("PUT")), Some(("ns/r/any".into(), false)));
    assert_eq!(served(rules, "OPTIONS", None), Some(("ns/r/any".into(), false)));
}
