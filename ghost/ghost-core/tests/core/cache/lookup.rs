//! What a stored response answers.

use std::time::Duration;

use ghost_core::cache::lookup::{
    decide, is_error, on_error, on_unstored, Advice, Budget, Candidate, HitReason, InPlace, Lookup,
    Validated,
};
use ghost_core::cache::{RequestDirectives, RevalidateReason, Seconds, Timestamp};
use proptest::prelude::*;

use crate::support::cases;

const ORIGIN: i64 = 1_000_000;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn candidate() -> Candidate {
    Candidate::new(Timestamp::from_seconds(ORIGIN), seconds(60))
}

fn at(age: i64, asked: &str, budget: Budget, candidate: &Candidate) -> Lookup {
    let asked = RequestDirectives::parse(&[("Cache-Control", asked.as_bytes())]);
    decide(&Advice { asked, budget }, Some(candidate), Timestamp::from_seconds(ORIGIN + age))
}

fn asked(age: i64, asked: &str) -> Lookup {
    at(age, asked, Budget::Available, &candidate().with_grace(seconds(10)))
}

const FRESH: Lookup = Lookup::Hit(HitReason::Fresh);
const GRACE: Lookup = Lookup::StaleHit { reason: HitReason::Grace, refresh: true };
const MAX_STALE: Lookup = Lookup::StaleHit { reason: HitReason::MaxStale, refresh: false };
const STALE: Lookup = Lookup::Revalidate(RevalidateReason::Stale);

#[test]
fn response_is_fresh_until_its_age_reaches_its_lifetime() {
    assert_eq!([0, 59, 60, 69, 70].map(|age| asked(age, "")), [FRESH, FRESH, GRACE, GRACE, STALE]);
}

#[test]
fn client_forces_a_validation() {
    use RevalidateReason::{MaxAge, MinFresh, NoCache};
    for (directives, reason) in [
        ("no-cache", NoCache),
        ("no-cache, max-age=100", NoCache),
        ("max-age=29", MaxAge),
        ("max-age=0", MaxAge),
        ("max-age=x", MaxAge),
        ("min-fresh=31", MinFresh),
    ] {
        assert_eq!(asked(30, directives), Lookup::Revalidate(reason), "{directives}");
        let exhausted = at(30, directives, Budget::Exhausted, &candidate());
        assert_eq!(exhausted, Lookup::Hit(HitReason::Budget), "{directives}");
    }
    for directives in ["max-age=30", "min-fresh=30", "max-stale", "no-store", "unknown=1"] {
        assert_eq!(asked(30, directives), FRESH, "{directives}");
    }
}

#[test]
fn exhausted_budget_makes_nothing_fresh() {
    assert_eq!(at(75, "no-cache", Budget::Exhausted, &candidate()), STALE);
}

#[test]
fn immutable_response_outlives_a_reload_but_not_a_forced_one() {
    let immutable = Candidate { immutable: true, ..candidate() };
    let at = |age, asked| at(age, asked, Budget::Available, &immutable);
    assert_eq!(at(30, "max-age=0"), Lookup::Hit(HitReason::Immutable));
    for forced in ["no-cache", "no-cache, max-age=0"] {
        assert_eq!(at(30, forced), Lookup::Revalidate(RevalidateReason::NoCache));
    }
    assert_eq!(at(30, "max-age=5"), Lookup::Revalidate(RevalidateReason::MaxAge));
    assert_eq!(at(61, "max-age=0"), STALE);
}

#[test]
fn client_accepts_staleness_unless_the_response_forbids_it() {
    assert_eq!(asked(90, "max-stale"), MAX_STALE);
    assert_eq!(asked(90, "max-stale=30"), MAX_STALE);
    assert_eq!(asked(90, "max-stale=29"), STALE);
    assert_eq!(asked(90, "max-stale=x"), STALE);
    assert_eq!(asked(90, "max-stale, max-age=80"), STALE);
    let strict = Candidate { must_revalidate: true, ..candidate() };
    assert_eq!(at(90, "max-stale", Budget::Available, &strict), STALE);
}

#[test]
fn client_that_asks_for_freshness_gets_nothing_stale() {
    for directives in ["max-age=100", "min-fresh=0", "no-cache"] {
        assert_eq!(asked(65, directives), STALE, "{directives}");
    }
}

#[test]
fn only_if_cached_is_answered_or_times_out() {
    assert_eq!(asked(30, "only-if-cached"), FRESH);
    assert_eq!(asked(65, "only-if-cached"), GRACE);
    assert_eq!(asked(75, "only-if-cached"), Lookup::GatewayTimeout);
    let asked = RequestDirectives { only_if_cached: true, ..RequestDirectives::default() };
    let advice = Advice { asked, budget: Budget::Available };
    assert_eq!(decide(&advice, None, Timestamp::from_seconds(0)), Lookup::GatewayTimeout);
}

#[test]
fn nothing_stored_is_a_miss() {
    let advice = Advice { asked: RequestDirectives::default(), budget: Budget::Available };
    assert_eq!(decide(&advice, None, Timestamp::from_seconds(0)), Lookup::Miss);
}

#[test]
fn invalidated_response_is_used_in_grace_only() {
    let invalidated = Candidate { invalidated: true, ..candidate() };
    let in_grace = invalidated.with_grace(seconds(10));
    let reason = Lookup::Revalidate(RevalidateReason::Invalidated);
    assert_eq!(at(30, "", Budget::Available, &invalidated), reason);
    assert_eq!(at(30, "max-stale", Budget::Available, &invalidated), reason);
    assert_eq!(at(30, "", Budget::Available, &in_grace), GRACE);
}

#[test]
fn purged_response_answers_no_error() {
    let at = |age: i64| Timestamp::from_seconds(ORIGIN + age);
    let object = Candidate { until_on_error: at(80), ..candidate() };
    for age in [30, 70] {
        assert_eq!(on_error(&object, true, at(age), at(age)), None);
        assert_eq!(on_unstored(&object, 403, at(age), at(age)), Validated::Superseded);
    }
    // It isn't used for longer than it is kept.
    let Some(InPlace::Stale { hold, grace, keep }) = on_error(&object, false, at(72), at(70))
    else {
        panic!("it is in its window");
    };
    assert_eq!((hold, grace, keep), (seconds(2), Duration::ZERO, Duration::ZERO));
}

#[test]
fn unstored_response_leaves_what_is_of_use_to_others() {
    let at = |age: i64| Timestamp::from_seconds(ORIGIN + age);
    let object = Candidate { until_on_error: at(100), ..candidate().with_grace(seconds(10)) };
    let after = |object: &Candidate, status, age| on_unstored(object, status, at(500), at(age));
    for status in [200, 302, 403, 404, 503] {
        assert_eq!(after(&object, status, 59), Validated::Kept);
        assert_eq!(after(&object, status, 69), Validated::Kept);
        assert_eq!(after(&object, status, 100), Validated::Superseded);
    }
    for (status, kept) in [(200, false), (302, false), (404, false), (410, false), (429, true)] {
        let expected = if kept { Validated::KeptForErrors } else { Validated::Superseded };
        assert_eq!(after(&object, status, 70), expected);
    }
    let always = Candidate { always_revalidate: true, ..object };
    assert_eq!(after(&always, 403, 30), Validated::Superseded);
}

#[test]
fn errors_are_answered_within_the_window() {
    let at = |age: i64| Timestamp::from_seconds(ORIGIN + age);
    let object = Candidate { until_on_error: at(80), ..candidate().with_grace(seconds(30)) };
    let answers =
        |object: &Candidate, background, age| on_error(object, background, at(500), at(age));
    assert_eq!(answers(&object, false, 30), Some(InPlace::Fresh));
    assert!(answers(&object, false, 79).is_some() && answers(&object, false, 80).is_none());
    assert!(answers(&object, true, 89).is_some() && answers(&object, true, 90).is_none());
    let [hold, grace, keep] = [5, 5, 420].map(seconds);
    assert_eq!(answers(&object, false, 70), Some(InPlace::Stale { hold, grace, keep }));
    let always = Candidate { always_revalidate: true, ..object };
    assert_eq!(answers(&always, false, 30), None);
    let error = Candidate { status: 503, ..object };
    assert_eq!(answers(&error, false, 30), None);
    assert_eq!(
        [500, 501, 502, 503, 504, 404].map(is_error),
        [true, false, true, true, true, false]
    );
}

fn delta() -> impl Strategy<Value = Option<Seconds>> {
    prop::option::of(prop_oneof![
        9 => (0_u64..100).prop_map(|count| Seconds::Valid(seconds(count))),
        1 => Just(Seconds::Invalid),
    ])
}

prop_compose! {
    fn advice()(flags in any::<[bool; 4]>(), max_age in delta(), min_fresh in delta(), max_stale in prop::option::of(delta())) -> Advice {
        let [no_cache, no_store, only_if_cached, available] = flags;
        let asked = RequestDirectives { no_cache, no_store, only_if_cached, max_age, min_fresh, max_stale };
        Advice { asked, budget: if available { Budget::Available } else { Budget::Exhausted } }
    }
}

prop_compose! {
    fn any_candidate()(flags in any::<[bool; 4]>(), lifetime in 0_u64..100, grace in 0_u64..50) -> Candidate {
        let [must_revalidate, always_revalidate, immutable, invalidated] = flags;
        let grace = if must_revalidate || always_revalidate { 0 } else { grace };
        Candidate { lifetime: seconds(lifetime), grace: seconds(grace), must_revalidate, always_revalidate, immutable, invalidated, ..candidate() }
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    /// What RFC 9111 forbids never happens, and what nothing forbids is not forwarded.
    #[test]
    fn answers_keep_the_promises_of_the_rfc(advice in advice(), object in any_candidate(), age in 0_i64..200) {
        let asked = advice.asked;
        let found = decide(&advice, Some(&object), Timestamp::from_seconds(ORIGIN + age));
        let age = u64::try_from(age).unwrap();
        let is_fresh = age < object.lifetime.as_secs() && !object.invalidated;
        let served = matches!(found, Lookup::Hit(_) | Lookup::StaleHit { .. });
        prop_assert!(!(served && object.always_revalidate));
        prop_assert!(!asked.only_if_cached || served || found == Lookup::GatewayTimeout);
        prop_assert!(asked.only_if_cached || found != Lookup::GatewayTimeout);
        prop_assert_ne!(found, Lookup::Miss);
        match found {
            Lookup::Hit(HitReason::Fresh) => {
                prop_assert!(is_fresh && !asked.no_cache);
                prop_assert!(asked.max_age.is_none_or(|most| age <= most.or_zero().as_secs()));
                let left = object.lifetime.as_secs() - age;
                prop_assert!(asked.min_fresh.is_none_or(|least| left >= least.or_zero().as_secs()));
            }
            Lookup::Hit(HitReason::Immutable) => prop_assert!(is_fresh && object.immutable),
            Lookup::Hit(_) => prop_assert!(is_fresh && advice.budget == Budget::Exhausted),
            Lookup::StaleHit { refresh, .. } => {
                prop_assert!(!is_fresh && !asked.no_cache && asked.min_fresh.is_none());
                prop_assert!(!object.must_revalidate || object.grace > Duration::ZERO);
                prop_assert!(refresh || asked.max_stale.is_some());
            }
            Lookup::Revalidate(reason) => {
                prop_assert!(!reason.is_forced() || (is_fresh && advice.budget == Budget::Available));
            }
            Lookup::Miss | Lookup::GatewayTimeout => {}
        }
        if is_fresh && !object.always_revalidate && asked == RequestDirectives::default() {
            prop_assert_eq!(found, Lookup::Hit(HitReason::Fresh));
        }
    }
}
