//! Policies.

use ghost_core::cache::{BypassReason, Policy, Survey};
use ghost_core::wire::{self, CachePolicy};
use ghost_core::Steps;

use super::support::{lines, policy, policy_error, survey};

#[test]
fn defaults_are_left_out_of_the_wire_format() {
    let minimal: CachePolicy = wire::decode(br#"{"defaultTTL": 60000}"#).unwrap();
    assert_eq!(serde_json::to_string(&minimal).unwrap(), r#"{"defaultTTL":60000}"#);
    let full = r#"{"name":"shop/c","forcedTTL":1,"unsafeIgnoreNoStoreAndPrivate":true,"statusTTLs":[{"status":"5xx","ttl":1}],"heuristicPercent":10,"staleWhileRevalidate":2,"staleIfError":3,"keep":0,"jitterPercent":5,"hitForMiss":6,"cacheKey":{"headers":["A"],"cookies":["b"],"queryParameters":{"include":[]},"scheme":false,"listener":false},"bypass":{"headers":[{"name":"x","valueRegex":"y"}],"cookies":["s*"],"methods":["HEAD"]},"setCookie":"remove","requestCookies":"ignore","ignoreRequestDirectives":true,"revalidation":{"perObject":1,"perRoute":2},"exactVary":true,"tagHeaders":["Surrogate-Key","Cache-Tag","xkey","Cache-Groups"],"cacheStatus":"trusted","maxObjectSize":7,"gzip":true,"esi":true}"#;
    let decoded: CachePolicy = wire::decode(full.as_bytes()).unwrap();
    assert_eq!(serde_json::to_string(&decoded).unwrap(), full);
    assert!(Policy::compile(&decoded).is_ok());
    let error = wire::decode::<CachePolicy>(br#"{"ttl": 1}"#).unwrap_err();
    assert_eq!(error.path, "ttl");
}

#[test]
fn invalid_policy_names_the_field_and_the_remedy() {
    let cases = [
        ("", "defaultTTL: is absent; set it or forcedTTL"),
        (
            r#""defaultTTL": 1, "forcedTTL": 1"#,
            "forcedTTL: excludes defaultTTL; remove one of them",
        ),
        (
            r#""defaultTTL": 1, "grace": 1, "staleWhileRevalidate": 1"#,
            "staleWhileRevalidate: excludes grace",
        ),
        (
            r#""defaultTTL": 1, "unsafeIgnoreNoStoreAndPrivate": true"#,
            "unsafeIgnoreNoStoreAndPrivate: has an effect only with forcedTTL",
        ),
        (r#""defaultTTL": 1, "jitterPercent": 101"#, "jitterPercent: 101 is not a percentage"),
        (
            r#""defaultTTL": 1, "statusTTLs": [{"status": "206", "ttl": 1}]"#,
            "statusTTLs[0].status: \"206\" can't be stored",
        ),
        (
            r#""defaultTTL": 1, "statusTTLs": [{"status": "1xx", "ttl": 1}]"#,
            "statusTTLs[0].status: \"1xx\" can't be stored",
        ),
        (
            r#""defaultTTL": 1, "statusTTLs": [{"status": "404", "ttl": 1}, {"status": "404", "ttl": 2}]"#,
            "statusTTLs[1].status: \"404\" occurs twice",
        ),
        (
            r#""defaultTTL": 1, "cacheKey": {"headers": ["a b"]}"#,
            "cacheKey.headers[0]: \"a b\" is not the name of a header",
        ),
        (
            r#""defaultTTL": 1, "cacheKey": {"cookies": ["a", "b=c"]}"#,
            "cacheKey.cookies[1]: \"b=c\" is not the name of a cookie",
        ),
        (
            r#""defaultTTL": 1, "cacheKey": {"queryParameters": {"include": ["a"], "exclude": ["b"]}}"#,
            "cacheKey.queryParameters.include: excludes the field exclude",
        ),
        (
            r#""defaultTTL": 1, "cacheKey": {"queryParameters": {"exclude": ["a", ""]}}"#,
            "cacheKey.queryParameters.exclude[1]: a glob must not be empty",
        ),
        (
            r#""defaultTTL": 1, "bypass": {"headers": [{"name": "x", "valueRegex": "("}]}"#,
            "bypass.headers[0].valueRegex: \"(\" is not a regular expression",
        ),
    ];
    for (fields, expected) in cases {
        let error = policy_error(&format!("{{{fields}}}"));
        assert!(error.starts_with(expected), "{fields}: {error}");
    }
    let many = format!(r#"{{"defaultTTL": 1, "cacheKey": {{"headers": {:?}}}}}"#, vec!["x"; 65]);
    assert_eq!(policy_error(&many), "cacheKey.headers: 65 entries are more than 64");
}

#[test]
fn patterns_of_a_policy_take_from_the_budget_of_its_route() {
    let source: CachePolicy = wire::decode(
        br#"{"defaultTTL": 1, "bypass": {"headers": [{"name": "x", "valueRegex": "[0-9]+"}]},
            "cacheKey": {"queryParameters": {"exclude": ["utm_*"]}}}"#,
    )
    .unwrap();
    let mut budget = ghost_core::budget::Budget::default();
    Policy::compile_within(&source, &mut budget).unwrap();
    let both = budget.spent();
    assert!(both > 2000, "{both}");
    Policy::compile_within(&source, &mut budget).unwrap();
    assert_eq!(budget.spent(), both);
}

#[test]
fn requests_pass_for_the_first_reason_that_applies() {
    let policy = policy(
        r#"{"defaultTTL": 1, "bypass": {"headers": [{"name": "x-debug"}, {"name": "x", "valueRegex": "a+"}],
            "cookies": ["sess*", "id?"], "methods": ["HEAD"]}}"#,
    );
    let reason = |method: &str, request: &[&str]| {
        let request = lines(request);
        let (method, steps) = (method.as_bytes(), Steps::of_request());
        policy.bypass_reason(method, survey(&request), &request, &steps).unwrap()
    };
    assert_eq!(reason("GET", &[]), None);
    assert_eq!(reason("POST", &["X-Debug: 1"]), Some(BypassReason::Method));
    assert_eq!(reason("get", &[]), Some(BypassReason::Method));
    assert_eq!(reason("QUERY", &[]), Some(BypassReason::Method));
    assert_eq!(reason("HEAD", &[]), Some(BypassReason::BypassedMethod));
    assert_eq!(reason("GET", &["If-Match: *"]), Some(BypassReason::Precondition));
    assert_eq!(reason("GET", &["X-Debug:"]), Some(BypassReason::Header));
    assert_eq!(reason("GET", &["X: b", "X: aa"]), Some(BypassReason::Header));
    assert_eq!(reason("GET", &["X: ab"]), None);
    assert_eq!(reason("GET", &["Cookie: a=session; idx=1"]), Some(BypassReason::Cookie));
    assert_eq!(reason("GET", &["Cookie: a=1", "Cookie: session=2"]), Some(BypassReason::Cookie));
    assert_eq!(reason("GET", &["Cookie: a=session; id=1; idxx=2"]), None);
}

#[test]
fn request_with_a_body_passes() {
    let policy = policy(r#"{"defaultTTL": 1}"#);
    let reason = |request: &[&str]| {
        let request = lines(request);
        policy.bypass_reason(b"GET", survey(&request), &request, &Steps::of_request()).unwrap()
    };
    assert_eq!(reason(&["Content-Length: 1"]), Some(BypassReason::Body));
    assert_eq!(reason(&["Transfer-Encoding: chunked"]), Some(BypassReason::Body));
    assert_eq!(reason(&["Content-Length: 0", "Content-Type: a/b", "Trailer: x"]), None);
}

#[test]
fn connection_that_may_become_a_websocket_passes_before_anything_else() {
    let policy = policy(r#"{"defaultTTL": 1, "bypass": {"headers": [{"name": "x"}]}}"#);
    let survey = Survey { upgrade: true, precondition: true, ..Survey::default() };
    let reason = policy.bypass_reason(b"GET", survey, &lines(&["X: 1"]), &Steps::of_request());
    assert_eq!(reason, Ok(Some(BypassReason::Upgrade)));
}

#[test]
fn keyed_header_that_connection_names_passes() {
    let policy =
        policy(r#"{"defaultTTL": 1, "cacheKey": {"headers": ["X-Tenant"], "cookies": ["theme"]}}"#);
    let reason = |connection| {
        let request = lines(&["X-Tenant: b", connection]);
        policy.bypass_reason(b"GET", survey(&request), &request, &Steps::of_request()).unwrap()
    };
    assert_eq!(reason("Connection: close, x-tenant"), Some(BypassReason::HiddenKey));
    assert_eq!(reason("Connection: Cookie"), Some(BypassReason::HiddenKey));
    assert_eq!(reason("Connection: keep-alive"), None);
}
