//! CORS: who is allowed what, and which rule answers a preflight.

use ghost_core::cors::Preflight;
use ghost_core::{wire, Cors, Route};
use proptest::prelude::*;

use crate::request::{one_listener, Ask};

fn cors(json: &str) -> Cors {
    let rule = format!(
        r#"{{"namespace": "n", "name": "r", "attachments": [], "rules": [{{"cors": {json}}}]}}"#
    );
    let route: wire::Route = wire::decode(rule.as_bytes()).unwrap();
    Route::compile(&route).unwrap().rules()[0].cors.clone().unwrap()
}

fn text(headers: &[(&str, &[u8])]) -> Vec<String> {
    let line = |(name, value): &(&str, &[u8])| {
        let name = name.strip_prefix("Access-Control-").unwrap();
        format!("{name}: {}", String::from_utf8_lossy(value))
    };
    headers.iter().map(line).collect()
}

fn answer(cors: &Cors, origin: &str) -> Vec<String> {
    text(&cors.response_headers(origin.as_bytes()).collect::<Vec<_>>())
}

fn preflight(cors: &Cors, origin: &str, method: &str, headers: Option<&str>) -> Vec<String> {
    let (origin, method) = (origin.as_bytes(), method.as_bytes());
    let asked = Preflight { origin, method, headers: headers.map(str::as_bytes) };
    text(&cors.preflight_headers(&asked).collect::<Vec<_>>())
}

#[test]
fn origins_are_compared_by_scheme_host_and_port() {
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
        assert_eq!(answer(&some, origin), expected, "{origin}");
        assert_eq!(preflight(&some, origin, "GET", None).is_empty(), !allowed, "{origin}");
    }
    assert!(some.varies_by_origin());
}

#[test]
fn any_origin_is_a_star_unless_credentials_are_allowed() {
    let open = cors(r#"{"origins": ["*"], "expose": ["*"]}"#);
    assert_eq!(answer(&open, "https://a.org:1"), ["Allow-Origin: *", "Expose-Headers: *"]);
    assert!(!open.varies_by_origin());
    let trusting = cors(r#"{"origins": ["*"], "credentials": true, "expose": ["*"]}"#);
    assert_eq!(
        answer(&trusting, "https://a.org:1"),
        ["Allow-Origin: https://a.org:1", "Allow-Credentials: true"]
    );
    assert!(trusting.varies_by_origin());
}

#[test]
fn a_preflight_is_told_what_is_allowed() {
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
fn a_wildcard_names_what_was_asked_for() {
    let every = r#""origins": ["https://a.org"], "methods": ["*"], "headers": ["*"]"#;
    let (plain, trusting) =
        (cors(&format!("{{{every}}}")), cors(&format!(r#"{{{every}, "credentials": true}}"#)));
    let parts = |lines: Vec<String>| {
        lines
            .into_iter()
            .filter(|line| line.contains("Methods") || line.contains("Allow-Headers"))
            .collect::<Vec<_>>()
    };
    for cors in [&plain, &trusting] {
        assert_eq!(
            parts(preflight(cors, "https://a.org", "PUT", Some("x-1, authorization"))),
            ["Allow-Methods: PUT", "Allow-Headers: x-1, authorization"]
        );
    }
    assert_eq!(
        parts(preflight(&plain, "https://a.org", "two words", None)),
        ["Allow-Methods: *", "Allow-Headers: *"]
    );
    assert_eq!(parts(preflight(&trusting, "https://a.org", "two words", None)), [""; 0]);
}

#[test]
fn nothing_said_is_nothing_allowed() {
    let nothing = cors("{}");
    assert_eq!(answer(&nothing, "https://a.org"), [""; 0]);
    let bare = cors(r#"{"origins": ["*"]}"#);
    assert_eq!(
        preflight(&bare, "https://a.org", "PUT", Some("x-1")),
        ["Allow-Origin: *", "Max-Age: 5"]
    );
}

proptest! {
    /// A suffix with its dot is all that counts of the host.
    #[test]
    fn a_wildcard_takes_any_labels(labels in "[a-z]{1,5}(\\.[a-z]{1,5}){0,3}", other in "[a-z.]{0,12}") {
        let some = cors(r#"{"origins": ["https://*.example.com"]}"#);
        let origin = format!("https://{labels}.example.com");
        prop_assert_eq!(answer(&some, &origin), [format!("Allow-Origin: {origin}")]);
        let stranger = format!("https://{other}example.com");
        let allowed = other.len() > 1 && other.ends_with('.');
        prop_assert_eq!(!answer(&some, &stranger).is_empty(), allowed);
    }

    /// Whatever a client calls its origin, it is told that one, any, or nothing.
    #[test]
    fn nobody_is_told_of_another_origin(origin in "\\PC*") {
        let some = cors(r#"{"origins": ["https://a.org", "https://*.b.org"], "credentials": true}"#);
        for line in answer(&some, &origin) {
            let same = format!("Allow-Origin: {origin}");
            prop_assert!([same.as_str(), "Allow-Credentials: true"].contains(&line.as_str()));
        }
    }
}

// -- which rule answers ------------------------------------------------------------------

/// Identity of the rule that serves, and whether it answers a preflight.
fn served(rules: &str, method: &str, announced: Option<&str>) -> Option<(String, bool)> {
    let router = one_listener(&[("r", rules)]);
    let mut ask = Ask::get("a.com", "/").method(method);
    if let Some(announced) = announced {
        ask = ask
            .header("origin", b"https://a.org")
            .header("access-control-request-method", announced.as_bytes());
    }
    let found = router.find(&ask).map(|found| (found.payload.clone(), found.preflight));
    let explained = router.explain(&ask);
    let winner = explained.winner.map(|winner| winner.payload.clone());
    assert_eq!(winner.map(|winner| (winner, explained.preflight)), found);
    found
}

#[test]
fn a_preflight_finds_the_rule_of_what_it_announces() {
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
fn a_rule_for_options_comes_first() {
    let rules = r#"[
        {"name": "options", "matches": [{"method": "OPTIONS"}], "status": 200},
        {"name": "any", "status": 200, "cors": {}}]"#;
    assert_eq!(served(rules, "OPTIONS", Some("GET")), Some(("ns/r/options".into(), false)));
    assert_eq!(served(rules, "GET", None), Some(("ns/r/any".into(), false)));
}

#[test]
fn a_rule_for_any_method_does_not_hide_the_one_with_cors() {
    let rules = r#"[
        {"name": "get", "matches": [{"method": "GET"}], "status": 200, "cors": {}},
        {"name": "any", "status": 200}]"#;
    assert_eq!(served(rules, "OPTIONS", Some("GET")), Some(("ns/r/get".into(), true)));
    assert_eq!(served(rules, "OPTIONS", Some("PUT")), Some(("ns/r/any".into(), false)));
    assert_eq!(served(rules, "OPTIONS", None), Some(("ns/r/any".into(), false)));
}
