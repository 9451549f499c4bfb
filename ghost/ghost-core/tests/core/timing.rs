//! Time-outs and retries, as far as they are arithmetic.

use std::time::Duration;

use ghost_core::{is_idempotent, wire, Retry, Route, Rule, Timeouts};
use proptest::prelude::*;

fn rule(json: &str) -> Rule {
    let route =
        format!(r#"{{"namespace": "n", "name": "r", "attachments": [], "rules": [{json}]}}"#);
    let route: wire::Route = wire::decode(route.as_bytes()).unwrap();
    Rule::clone(&Route::compile(&route).unwrap().rules()[0])
}

fn retry(backoff: u64) -> Retry {
    rule(&format!(r#"{{"retry": {{"codes": [500, 503], "backoff": {backoff}}}}}"#)).retry.unwrap()
}

#[test]
fn zero_is_no_limit_and_not_the_same_as_nothing() {
    assert_eq!(rule("{}").timeouts, Timeouts::default());
    assert_eq!(rule(r#"{"timeouts": {}}"#).timeouts, Timeouts::default());
    let unlimited = Timeouts { explicit: true, ..Timeouts::default() };
    for zero in
        [r#""request": 0"#, r#""backendRequest": 0"#, r#""request": 0, "backendRequest": 0"#]
    {
        assert_eq!(rule(&format!(r#"{{"timeouts": {{{zero}}}}}"#)).timeouts, unlimited);
    }
    let limits = rule(r#"{"timeouts": {"request": 1500, "backendRequest": 1}}"#).timeouts;
    assert_eq!(limits.request, Some(Duration::from_millis(1500)));
    assert_eq!(limits.backend_request, Some(Duration::from_millis(1)));
}

#[test]
fn a_retry_is_one_of_few_and_not_after_a_minute_of_pauses() {
    let rule = rule(r#"{"retry": {"attempts": 3, "backoff": 30000}}"#);
    let goes_on = |made, seconds| {
        let retry = rule.retry.as_ref().unwrap();
        retry.allows_another(made, Duration::from_secs(seconds))
    };
    assert!(goes_on(0, 0) && goes_on(2, 59));
    assert!(!goes_on(3, 0) && !goes_on(2, 60));
    assert!(retry(25).allows_another(0, Duration::ZERO));
    assert!(!retry(25).allows_another(1, Duration::ZERO));
}

#[test]
fn codes_and_methods() {
    let retry = retry(25);
    assert_eq!(
        [200, 500, 502, 503].map(|status| retry.retries_status(status)),
        [false, true, false, true]
    );
    assert!([&b"GET"[..], b"HEAD", b"PUT", b"DELETE"].into_iter().all(is_idempotent));
    assert!(![&b"POST"[..], b"PATCH", b"get", b""].into_iter().any(is_idempotent));
}

proptest! {
    /// Never sooner than was asked for; doubled each time up to a second; by chance a
    /// quarter longer.
    #[test]
    fn a_pause_is_as_long_as_asked_for_and_not_much_longer(
        backoff in 0_u64..40_000, made in 0_u32..100, chance in any::<u64>()
    ) {
        let pause = retry(backoff).backoff(made, chance).as_micros();
        let backoff = u128::from(backoff) * 1000;
        let grown = (backoff << made.min(20)).min(backoff.max(1_000_000));
        prop_assert!(grown <= pause && pause <= grown + grown / 4, "{pause} of {grown}");
    }
}
