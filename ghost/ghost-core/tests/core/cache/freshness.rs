//! Age and lifetime, compared with the formulas of RFC 9111.
//!
//! The model works on numbers and never reads a header; the library reads the headers that are
//! rendered from the same numbers.

use std::time::Duration;

use ghost_core::cache::freshness::jittered;
use ghost_core::cache::{age, store, Exchange, Outcome, Policy, Response, StoreRequest, Timestamp};
use proptest::prelude::*;

use super::support::{lines, policy, Lines, NOW};

/// A response in numbers; times are seconds relative to its arrival.
#[derive(Clone, Debug)]
struct Numbers {
    delay: i64,
    date: Option<i64>,
    age: Option<i64>,
    s_maxage: Option<i64>,
    max_age: Option<i64>,
    expires: Option<i64>,
    etag: bool,
    no_cache: bool,
    must_revalidate: bool,
}

fn numbers() -> impl Strategy<Value = Numbers> {
    let maybe = |range: std::ops::Range<i64>| prop::option::of(range);
    let times = (0_i64..5, maybe(-30..30), maybe(0..40));
    let lifetimes = (maybe(0..60), maybe(0..60), maybe(-20..60));
    (times, lifetimes, any::<[bool; 3]>()).prop_map(|((delay, date, age), lifetimes, flags)| {
        let (s_maxage, max_age, expires) = lifetimes;
        let [etag, no_cache, must_revalidate] = flags;
        Numbers { delay, date, age, s_maxage, max_age, expires, etag, no_cache, must_revalidate }
    })
}

/// The minutes before and after the reference time fall into one hour.
fn date(relative: i64) -> String {
    let of_day = 8 * 3600 + 49 * 60 + 37 + relative;
    format!("Sun, 06 Nov 1994 {:02}:{:02}:{:02} GMT", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

impl Numbers {
    fn headers(&self) -> Lines {
        let flag = |set: bool, name: &str| set.then(|| name.to_owned());
        let directives = [
            self.s_maxage.map(|seconds| format!("s-maxage={seconds}")),
            self.max_age.map(|seconds| format!("max-age={seconds}")),
            flag(self.no_cache, "no-cache"),
            flag(self.must_revalidate, "must-revalidate"),
        ];
        let fields = [
            ("Date", self.date.map(date)),
            ("Expires", self.expires.map(date)),
            ("Age", self.age.map(|seconds| seconds.to_string())),
            ("ETag", flag(self.etag, "\"a\"")),
        ];
        let directives = directives.into_iter().map(|directive| ("Cache-Control", directive));
        let present = directives.chain(fields).filter_map(|(name, value)| Some((name, value?)));
        present.map(|(name, value)| (name.to_owned(), value.into_bytes())).collect()
    }

    /// Section 4.2.3.
    fn age(&self) -> i64 {
        let apparent_age = (-self.date.unwrap_or(0)).max(0);
        let corrected_age_value = self.age.unwrap_or(0) + self.delay;
        apparent_age.max(corrected_age_value)
    }

    /// Section 4.2.1; 60 is the policy's default.
    fn lifetime(&self) -> i64 {
        let by_expires = self.expires.map(|expires| (expires - self.date.unwrap_or(0)).max(0));
        self.s_maxage.or(self.max_age).or(by_expires).unwrap_or(60)
    }
}

fn times(delay: i64) -> Exchange {
    let received = Timestamp::from_seconds(NOW);
    Exchange { requested: Timestamp::from_seconds(NOW - delay), received }
}

fn decide(policy: &Policy, numbers: &Numbers, random: u32) -> Outcome {
    let facts = StoreRequest::new(policy, b"GET", &lines(&[]));
    let headers = numbers.headers();
    let response = Response { status: 200, headers: &headers };
    store::decide(policy, facts, &response, times(numbers.delay), random)
}

proptest! {
    #[test]
    fn age_and_lifetime_follow_the_formulas(numbers in numbers()) {
        let (age, lifetime) = (numbers.age(), numbers.lifetime());
        let usable_later = lifetime > age && !numbers.no_cache;
        match decide(&policy(r#"{"defaultTTL": 60000}"#), &numbers, 0) {
            Outcome::Stored(stored) => {
                prop_assert_eq!(stored.origin, Timestamp::from_seconds(NOW - age));
                prop_assert_eq!(stored.lifetime.as_secs(), u64::try_from(lifetime).unwrap());
                prop_assert_eq!(stored.always_revalidate, numbers.no_cache);
                let forbidden = numbers.no_cache || numbers.must_revalidate || numbers.s_maxage.is_some();
                prop_assert_eq!(stored.must_revalidate, forbidden);
                prop_assert!(usable_later || numbers.etag);
            }
            Outcome::NotStored(refusal) => {
                prop_assert_eq!(refusal.reason.name(), "stale-on-arrival");
                prop_assert!(!usable_later && !numbers.etag);
            }
        }
    }

    /// An object lives until its last use: fresh, in grace, after an error, for validation.
    #[test]
    fn object_outlives_each_of_its_windows(
        numbers in numbers(), grace in 0_u64..100, error in 0_u64..100, keep in 0_u64..100
    ) {
        let policy = policy(&format!(
            r#"{{"defaultTTL": 60000, "grace": {}, "staleIfError": {}, "keep": {}}}"#,
            grace * 1000, error * 1000, keep * 1000
        ));
        if let Outcome::Stored(stored) = decide(&policy, &numbers, 0) {
            let end = stored.lifetime + stored.grace + stored.keep;
            prop_assert!(end >= stored.lifetime + stored.stale_if_error);
            let age = Timestamp::from_seconds(NOW).since(stored.origin);
            if numbers.etag {
                prop_assert!(end >= age.max(stored.lifetime) + Duration::from_secs(keep));
            }
            prop_assert!(end > age, "an object that is useless at once");
        }
    }

    #[test]
    fn jitter_shortens_within_its_bound(millis in 0_u64..10_000_000_000, percent in 0_u8..=100, random in any::<u32>()) {
        let full = Duration::from_millis(millis);
        let short = jittered(full, percent, random);
        prop_assert!(short <= full);
        prop_assert!(full <= short + full * u32::from(percent) / 100);
    }

    #[test]
    fn jitter_leaves_the_age_alone(numbers in numbers(), random in any::<u32>()) {
        let policy = policy(r#"{"defaultTTL": 60000, "jitterPercent": 20}"#);
        if let Outcome::Stored(stored) = decide(&policy, &numbers, random) {
            prop_assert_eq!(stored.origin, Timestamp::from_seconds(NOW - numbers.age()));
        }
    }
}

#[test]
fn malformed_and_repeated_ages_are_read_as_the_rfc_says() {
    let age = |response: &[&str]| age::initial(&lines(response), times(0)).as_secs();
    for (response, expected) in [
        (&["Age: 7"][..], 7),
        (&["Age: 007"], 7),
        (&["Age: 7, 9"], 7),
        (&["Age: 7", "Age: 9"], 7),
        (&["Age: -7"], 0),
        (&["Age: 7.5"], 0),
        (&["Age: x, 7"], 0),
        (&["Age:"], 0),
        (&["Age: 99999999999999999999"], 1 << 31),
        (&["Date: Sun, 06 Nov 1994 08:49:30 GMT"], 7),
        (&["Date: Sun, 06 Nov 1994 08:49:30 GMT", "Date: Sun, 06 Nov 1994 08:49:30 GMT"], 0),
        (&["Date: Sun, 06 Nov 2094 08:49:30 GMT"], 0),
        (&["Date: soon"], 0),
    ] {
        assert_eq!(age(response), expected, "{response:?}");
    }
}

#[test]
fn fraction_of_a_second_is_not_an_age() {
    let received = Timestamp::from_millis(NOW * 1000 + 999);
    let times = Exchange { requested: received, received };
    let response = lines(&["Date: Sun, 06 Nov 1994 08:49:37 GMT"]);
    assert_eq!(age::initial(&response, times), Duration::ZERO);
    let slow = Exchange { requested: Timestamp::from_millis(NOW * 1000 + 499), ..times };
    assert_eq!(age::initial(&response, slow), Duration::from_millis(500));
}
