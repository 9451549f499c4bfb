//! The budget of a request, as the questions to a cache policy spend it.

use ghost_core::cache::key::{self, KeyRequest, Shown};
use ghost_core::cache::{BypassReason, Policy, Survey};
use ghost_core::steps::{FETCH_STEPS, REQUEST_STEPS};
use ghost_core::{OverBudget, Steps};
use proptest::prelude::*;

use crate::cache::support::{policy, Lines};
use crate::support::{get, one_listener};

/// Takes a step for each of 20,000 bytes, and 256.
const LONG: usize = 20_000;

fn bypass(conditions: &str) -> Policy {
    policy(&format!(r#"{{"defaultTTL": 1, "bypass": {{{conditions}}}}}"#))
}

fn query(conditions: &str) -> Policy {
    let fields = format!(r#""cacheKey": {{"queryParameters": {{{conditions}}}}}"#);
    policy(&format!(r#"{{"defaultTTL": 1, {fields}}}"#))
}

/// Conditions of a bypass: so many patterns for the header x.
fn patterns(count: usize) -> String {
    let all: Vec<_> =
        (0..count).map(|n| format!(r#"{{"name": "x", "valueRegex": ".*b{n}"}}"#)).collect();
    format!(r#""headers": [{}]"#, all.join(","))
}

fn reason(
    policy: &Policy,
    (name, value): (&str, String),
    steps: &Steps,
) -> Result<Option<BypassReason>, OverBudget> {
    let request: Lines = vec![(name.to_owned(), value.into_bytes())];
    policy.bypass_reason(b"GET", Survey::default(), &request, steps)
}

fn write_key(policy: &Policy, query: &[u8], steps: &Steps) -> Result<(), OverBudget> {
    key(policy, query, steps).map(drop)
}

fn key(policy: &Policy, query: &[u8], steps: &Steps) -> Result<Vec<u8>, OverBudget> {
    let mut key = Vec::new();
    key::write(&policy.key, &key_request(query), steps, &mut key).map(|()| key)
}

fn key_request(query: &[u8]) -> KeyRequest<'_, Lines> {
    const NO_HEADERS: &Lines = &Lines::new();
    KeyRequest {
        rule: "ns/r/0",
        listener: "web",
        https: false,
        host: b"a.example",
        port: None,
        path: b"/",
        query: Some(query),
        headers: NO_HEADERS,
    }
}

#[test]
fn bypass_that_takes_too_many_steps_is_an_error() {
    let all = |policy: &Policy, header| reason(policy, header, &Steps::of_request());
    let boundaries = bypass(r#""headers": [{"name": "x", "valueRegex": "(?u)(\\b[a-z]+ )*x"}]"#);
    let spaced = |count| ("x", "ab ".repeat(count));
    assert_eq!(all(&boundaries, spaced(10)), Ok(None));
    assert_eq!(all(&boundaries, spaced(100_000)), Err(OverBudget::Header));
    let globs = bypass(r#""cookies": ["*session*"]"#);
    let cookies = |count, last: &str| ("cookie", format!("{}{last}", "a;".repeat(count)));
    assert_eq!(all(&globs, cookies(10, "session=1")), Ok(Some(BypassReason::Cookie)));
    assert_eq!(all(&globs, cookies(10_000, "session=1")), Err(OverBudget::Header));
    assert_eq!(all(&globs, cookies(10_000, "x")), Err(OverBudget::Header));
}

#[test]
fn names_without_a_pattern_take_steps_too() {
    let names: Vec<_> = (0..64).map(|n| format!("b{n}*")).collect();
    let cookies = bypass(&format!(r#""cookies": {names:?}"#));
    let many = |count| ("cookie", "a;".repeat(count));
    assert_eq!(reason(&cookies, many(15_000), &Steps::of_request()), Ok(None));
    assert_eq!(reason(&cookies, many(25_000), &Steps::of_request()), Err(OverBudget::Header));
    let excluded = query(&format!(r#""exclude": {names:?}"#));
    let many = |count| "a&".repeat(count).into_bytes();
    assert_eq!(write_key(&excluded, &many(10_000), &Steps::of_request()), Ok(()));
    assert_eq!(write_key(&excluded, &many(15_000), &Steps::of_request()), Err(OverBudget::Target));
}

#[test]
fn rule_and_policy_share_the_budget_of_a_request() {
    let a_match =
        |n| format!(r#"{{"headers": [{{"name": "x", "type": "regex", "value": ".*c{n}"}}]}}"#);
    let matches: Vec<_> = (0..40).map(a_match).collect();
    let router = one_listener(&[
        ("regexes", &format!(r#"[{{"matches": [{}]}}]"#, matches.join(","))),
        ("plain", "[{}]"),
    ]);
    let long = ("x", "a".repeat(LONG));
    let request = get("h", "/").with_header("x", long.1.as_str());
    let steps = Steps::of_request();
    // Each alone takes a good half.
    assert!(router.find_within(&request, &steps).is_ok_and(|found| found.is_some()));
    let policy = bypass(&patterns(40));
    assert_eq!(reason(&policy, long.clone(), &Steps::of_request()), Ok(None));
    assert_eq!(reason(&policy, long, &steps), Err(OverBudget::Header));
    assert_eq!(router.explain(&request).steps_left, {
        let steps = Steps::of_request();
        let _ = router.find_within(&request, &steps);
        steps.left()
    });
}

#[test]
fn bypass_and_key_share_the_budget_of_a_request() {
    let both = policy(&format!(
        r#"{{"defaultTTL": 1, "bypass": {{{}}}, "cacheKey": {{"queryParameters": {{"exclude": ["*b"]}}}}}}"#,
        patterns(40)
    ));
    let names = b"a&".repeat(2_000);
    let steps = Steps::of_request();
    assert_eq!(write_key(&both, &names, &Steps::of_request()), Ok(()));
    assert_eq!(reason(&both, ("x", "a".repeat(LONG)), &steps), Ok(None));
    assert_eq!(write_key(&both, &names, &steps), Err(OverBudget::Target));
}

#[test]
fn request_that_has_no_step_left_has_no_key() {
    for conditions in [r#""exclude": ["b"]"#, r#""include": ["a"]"#, r#""exclude": ["*b"]"#] {
        let policy = query(conditions);
        let result = write_key(&policy, b"a=1&a=2&c=3", &Steps::new(0));
        assert_eq!(result, Err(OverBudget::Target), "{conditions}");
        assert_eq!(write_key(&policy, b"", &Steps::new(0)), Ok(()), "{conditions}");
    }
}

#[test]
fn key_that_is_shown_takes_no_more_steps() {
    let policy = query(r#""exclude": ["*b"]"#);
    let [hidden, shown] = [Steps::of_request(), Steps::of_request()];
    let query = b"a&".repeat(1_000);
    let (request, mut buffers) = (key_request(&query), [Vec::new(), Vec::new(), Vec::new()]);
    let [alone, whole, text] = &mut buffers;
    assert_eq!(key::write(&policy.key, &request, &hidden, alone), Ok(()));
    let both = Shown { to: text, hide: &|_| 0 };
    assert_eq!(key::write_and_show(&policy.key, &request, &shown, whole, both), Ok(()));
    assert_eq!((shown.left(), whole), (hidden.left(), alone));
    assert_eq!(buffers[2], buffers[0], "there is nothing to hide in it");
}

#[test]
fn query_that_takes_too_many_steps_has_no_key() {
    for conditions in [r#""exclude": ["*b"]"#, r#""include": ["*b"]"#, r#""include": ["?"]"#] {
        let policy = query(conditions);
        let result = |count| write_key(&policy, &b"a&".repeat(count), &Steps::of_request());
        assert_eq!(result(2_500), Ok(()), "{conditions}");
        assert_eq!(result(3_500), Err(OverBudget::Target), "{conditions}");
    }
    let steps = Steps::of_fetch();
    let forwarded = |count| {
        let policy = query(r#""exclude": ["*b"]"#);
        policy.key.query.write_forwarded(&b"a&".repeat(count), &steps, &mut Vec::new())
    };
    assert_eq!(forwarded(100), Ok(()));
    assert_eq!(forwarded(10_000), Err(OverBudget::Target));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What is not in the key must not reach the origin, so that the fetch decides what the key
    /// did. The request has paid for both.
    #[test]
    fn fetch_of_a_request_with_a_key_stays_within_what_it_has_paid(
        globs in prop::collection::vec("[ab*?]{1,4}", 1..4),
        name in "[ab]{1,200}", count in 1_usize..6_000, spent in 0..=REQUEST_STEPS
    ) {
        let policy = query(&format!(r#""exclude": {globs:?}"#));
        let query = format!("{name}&").repeat(count);
        let (steps, fetch) = (Steps::new(REQUEST_STEPS - spent), Steps::of_fetch());
        let before = steps.left();
        let key = write_key(&policy, query.as_bytes(), &steps);
        let forwarded = policy.key.query.write_forwarded(query.as_bytes(), &fetch, &mut Vec::new());
        if key.is_ok() {
            prop_assert_eq!(forwarded, Ok(()));
            prop_assert_eq!(before - steps.left(), 2 * (FETCH_STEPS - fetch.left()));
        }
    }

    /// A key without some of the parameters would be that of another response.
    #[test]
    fn key_within_the_budget_is_the_whole_key(
        globs in prop::collection::vec("[ab*?]{1,4}|[ab]{0,3}", 1..4),
        kind in prop::sample::select(vec!["include", "exclude"]),
        names in prop::collection::vec("[ab]{1,4}", 1..100), left in few_steps()
    ) {
        let globs: Vec<_> = globs.into_iter().filter(|glob| !glob.is_empty()).collect();
        let policy = query(&format!(r#""{kind}": {globs:?}"#));
        let query = names.join("&");
        if let Ok(key) = key(&policy, query.as_bytes(), &Steps::new(left)) {
            let whole = self::key(&policy, query.as_bytes(), &Steps::unlimited());
            prop_assert_eq!(Ok(key), whole);
        }
    }
}

/// None, a few, or as many as a query takes.
fn few_steps() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0_u64..200, 0_u64..60_000]
}
