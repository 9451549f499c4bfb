//! Timeouts and retries.

use std::time::Duration;

use ghost_core::{is_idempotent, Retry, Timeouts};
use proptest::prelude::*;

use crate::support::compiled_rule as rule;

fn retry(backoff: u64) -> Retry {
    rule(&format!(r#"{{"retry": {{"codes": [500, 503], "backoff": {backoff}}}}}"#))
        .retry
        .clone()
        .unwrap()
}

#[test]
fn zero_timeout_is_explicitly_unlimited() {
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
fn retries_end_after_their_number_or_a_minute_of_waiting() {
    let rule = rule(r#"{"retry": {"attempts": 3, "backoff": 30000}}"#);
    let allows = |retries, seconds| {
        let retry = rule.retry.as_ref().unwrap();
        retry.allows_another(retries, Duration::from_secs(seconds), None)
    };
    assert!(allows(0, 0) && allows(2, 59));
    assert!(!allows(3, 0) && !allows(2, 60));
    assert!(retry(25).allows_another(0, Duration::ZERO, None));
    assert!(!retry(25).allows_another(1, Duration::ZERO, None));
}

#[test]
fn retries_of_a_rule_without_a_time_limit_end_after_a_minute() {
    let rule = rule(r#"{"retry": {"attempts": 1000, "backoff": 0}}"#);
    let allows = |seconds| {
        let elapsed = Some(Duration::from_secs(seconds));
        rule.retry.as_ref().unwrap().allows_another(500, Duration::ZERO, elapsed)
    };
    assert!(allows(59) && !allows(60));
}

#[test]
fn many_retries_without_a_backoff_are_paced() {
    let waits = |retries| retry(0).backoff(retries, 0);
    assert!((0..4).all(|retries| waits(retries).is_zero()));
    assert_eq!([4, 5, 8].map(waits), [1, 2, 16].map(Duration::from_millis));
    assert_eq!([14, 1000, u32::MAX].map(waits), [Duration::from_secs(1); 3]);
}

#[test]
fn only_listed_codes_and_idempotent_methods_are_retried() {
    let retry = retry(25);
    assert_eq!(
        [200, 500, 502, 503].map(|status| retry.retries_status(status)),
        [false, true, false, true]
    );
    assert!([&b"GET"[..], b"HEAD", b"PUT", b"DELETE"].into_iter().all(is_idempotent));
    assert!(![&b"POST"[..], b"PATCH", b"get", b""].into_iter().any(is_idempotent));
}

proptest! {
    /// At least the configured backoff, or else a millisecond after four retries, doubled each
    /// time up to a second, and at most a quarter longer.
    #[test]
    fn backoff_doubles_up_to_a_second_with_bounded_jitter(
        backoff in 0_u64..40_000, retries in 0_u32..100, random in any::<u64>()
    ) {
        let wait = retry(backoff).backoff(retries, random).as_micros();
        let backoff = u128::from(backoff) * 1000;
        let least = retries.checked_sub(4).map_or(0, |times| 1000_u128 << times.min(20));
        let grown = (backoff << retries.min(20)).max(least).min(backoff.max(1_000_000));
        prop_assert!(grown <= wait && wait <= grown + grown / 4, "{wait} of {grown}");
    }
}
