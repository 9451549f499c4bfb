//! What is stored, what is not, and why.

use std::time::Duration;

use ghost_core::cache::{
    store, Exchange, NotStoredReason, Outcome, Policy, Response, StoreRequest, Timestamp,
};

use super::support::{decide, lines, policy, refusal, stored, why, DATE_NOW, NOW};

const SECOND: Duration = Duration::from_secs(1);

fn usual() -> Policy {
    policy(r#"{"defaultTTL": 60000}"#)
}

fn forced() -> Policy {
    policy(r#"{"forcedTTL": 60000}"#)
}

#[test]
fn origin_states_the_lifetime_unless_the_policy_forces_it() {
    let expires = "Expires: Sun, 06 Nov 1994 08:49:47 GMT";
    let date = format!("Date: {DATE_NOW}");
    let cases: [(&[&str], u64, &str); 8] = [
        (&["Cache-Control: s-maxage=5, max-age=7", expires], 5, "s-maxage"),
        (&["Cache-Control: max-age=7", expires], 7, "max-age"),
        (&[expires, &date], 10, "expires"),
        (&["X: y"], 60, "default-ttl"),
        (&["Cache-Control: no-transform"], 60, "default-ttl"),
        (&["Cache-Control: max-age=x", "ETag: \"a\""], 0, "invalid-lifetime"),
        (&["Expires: 0", "ETag: \"a\""], 0, "invalid-lifetime"),
        (&["CDN-Cache-Control: max-age=3", "Cache-Control: no-store"], 3, "max-age"),
    ];
    for (response, lifetime, reason) in cases {
        let stored = stored(&usual(), 200, response);
        assert_eq!(
            (stored.lifetime.as_secs(), stored.reason.name()),
            (lifetime, reason),
            "{response:?}"
        );
    }
    for response in
        [&["Cache-Control: max-age=0, no-cache"][..], &[expires], &["Cache-Control: s-maxage=1"]]
    {
        let stored = stored(&forced(), 200, response);
        assert_eq!((stored.lifetime.as_secs(), stored.reason.name()), (60, "forced-ttl"));
        assert!(!stored.always_revalidate && !stored.must_revalidate);
    }
}

#[test]
fn expires_that_cannot_be_read_is_in_the_past() {
    let date = "Thu, 01 Jan 2099 00:00:00 GMT";
    let (once, twice) = (format!("Expires: {date}"), format!("Expires: {date}, {date}"));
    let invalid: [&[&str]; 6] = [
        &["Expires: 0"],
        &["Expires: -1"],
        &["Expires:"],
        &["Expires: Thu, 01 Jan 2099 00:00:00 CET"],
        &[&twice],
        &[&once, &once],
    ];
    for expires in invalid {
        let response: Vec<_> = expires.iter().copied().chain(["ETag: \"a\""]).collect();
        let of = stored(&usual(), 200, &response);
        assert_eq!(
            (of.lifetime.as_secs(), of.reason.name()),
            (0, "invalid-lifetime"),
            "{expires:?}"
        );
        let beside = [&response[..], &["Cache-Control: max-age=7"]].concat();
        assert_eq!(stored(&usual(), 200, &beside).lifetime.as_secs(), 7, "{expires:?}");
    }
}

#[test]
fn unknown_directives_and_pragma_of_a_response_change_nothing() {
    let unknown =
        ["Cache-Control: community=\"UCI\", x-private, max-age=9, no-stores", "Pragma: no-cache"];
    assert_eq!(why(&usual(), &[], 200, &unknown), "max-age");
    assert_eq!(why(&usual(), &[], 200, &unknown[1..]), "default-ttl");
}

#[test]
fn expires_is_ignored_beside_a_targeted_field() {
    let response = ["CDN-Cache-Control: public", "Expires: Sun, 06 Nov 1994 08:49:47 GMT"];
    assert_eq!(stored(&usual(), 200, &response).reason.name(), "default-ttl");
}

#[test]
fn no_store_and_private_are_respected_unless_explicitly_overridden() {
    for policy in [usual(), forced()] {
        assert_eq!(why(&policy, &[], 200, &["Cache-Control: no-store, max-age=9"]), "no-store");
        assert_eq!(why(&policy, &[], 200, &["Cache-Control: private, max-age=9"]), "private");
        assert_eq!(
            why(&policy, &[], 200, &["Cache-Control: x=\"y, private, max-age=9"]),
            "private"
        );
    }
    let unsafely = policy(r#"{"forcedTTL": 1000, "unsafeIgnoreNoStoreAndPrivate": true}"#);
    assert_eq!(why(&unsafely, &[], 200, &["Cache-Control: no-store, private"]), "forced-ttl");
}

#[test]
fn fields_that_are_named_restrict_only_themselves() {
    let response =
        ["Cache-Control: max-age=9, private=\"Set-Cookie\", no-cache=\"X\"", "Set-Cookie: a=1"];
    let stored = stored(&usual(), 200, &response);
    assert!(stored.withholds_fields && !stored.always_revalidate && !stored.removes_set_cookie);
}

#[test]
fn must_understand_lifts_no_store_for_known_statuses() {
    let response = ["Cache-Control: must-understand, no-store, max-age=9"];
    assert_eq!(why(&usual(), &[], 200, &response), "max-age");
    assert_eq!(why(&usual(), &[], 499, &response), "must-understand");
    assert_eq!(why(&usual(), &[], 499, &["Cache-Control: max-age=9"]), "max-age");
}

#[test]
fn authorization_needs_permission_of_the_response() {
    let reason = |response: &[&str]| why(&usual(), &["Authorization: Basic x"], 200, response);
    assert_eq!(reason(&["Cache-Control: max-age=9"]), "authorization");
    assert_eq!(reason(&[]), "authorization");
    assert_eq!(why(&forced(), &["Authorization: x"], 200, &[]), "authorization");
    for permission in ["public", "must-revalidate", "s-maxage=9"] {
        assert_eq!(
            stored_reason_of(permission),
            reason(&[&format!("Cache-Control: max-age=9, {permission}")])
        );
    }
}

fn stored_reason_of(permission: &str) -> &'static str {
    if permission.starts_with("s-maxage") {
        "s-maxage"
    } else {
        "max-age"
    }
}

#[test]
fn statuses_follow_their_rules() {
    let explicit = ["Cache-Control: max-age=9"];
    for status in [200, 203, 204, 300, 301, 308, 404, 405, 410, 414] {
        assert_eq!(why(&usual(), &[], status, &[]), "default-ttl", "{status}");
        assert_eq!(why(&forced(), &[], status, &explicit), "forced-ttl", "{status}");
    }
    for status in [201, 302, 303, 307, 400, 403, 429, 299, 499] {
        assert_eq!(why(&usual(), &[], status, &[]), "status", "{status}");
        assert_eq!(why(&forced(), &[], status, &[]), "status", "{status}");
        assert_eq!(why(&usual(), &[], status, &explicit), "max-age", "{status}");
    }
    for status in [500, 501, 502, 503, 504, 599] {
        assert_eq!(why(&usual(), &[], status, &[]), "server-error", "{status}");
        assert_eq!(
            why(&usual(), &[], status, &["Cache-Control: public"]),
            "server-error",
            "{status}"
        );
        assert_eq!(why(&forced(), &[], status, &[]), "server-error", "{status}");
        assert_eq!(why(&usual(), &[], status, &explicit), "max-age", "{status}");
    }
    assert_eq!(why(&usual(), &[], 302, &["Cache-Control: public"]), "default-ttl");
    for (status, reason) in [(103, "interim"), (206, "partial"), (304, "not-modified")] {
        assert_eq!(why(&forced(), &[], status, &explicit), reason);
    }
}

#[test]
fn lifetimes_by_status_take_the_place_of_the_general_one() {
    let by_status = |ttl: &str| {
        policy(&format!(
            r#"{{{ttl}, "statusTTLs": [{{"status": "404", "ttl": 5000}}, {{"status": "4xx", "ttl": 3000}}, {{"status": "503", "ttl": 1000}}]}}"#
        ))
    };
    let default = by_status(r#""defaultTTL": 60000"#);
    let forced = by_status(r#""forcedTTL": 60000"#);
    for (status, lifetime) in [(404, 5), (403, 3), (503, 1)] {
        assert_eq!(stored(&default, status, &[]).lifetime.as_secs(), lifetime);
        assert_eq!(stored(&default, status, &["Cache-Control: max-age=9"]).lifetime.as_secs(), 9);
        assert_eq!(
            stored(&forced, status, &["Cache-Control: max-age=9"]).lifetime.as_secs(),
            lifetime
        );
    }
    assert_eq!(why(&default, &[], 500, &[]), "server-error");
}

#[test]
fn heuristic_is_a_share_of_the_time_since_the_last_change() {
    let policy = policy(r#"{"defaultTTL": 60000, "heuristicPercent": 10}"#);
    let stored = |response: &[&str]| stored(&policy, 200, response);
    let unchanged = stored(&["Last-Modified: Sun, 06 Nov 1994 08:32:57 GMT"]);
    assert_eq!((unchanged.lifetime, unchanged.reason.name()), (100 * SECOND, "heuristic"));
    let old = stored(&["Last-Modified: Sun, 06 Nov 1977 08:32:57 GMT"]);
    assert_eq!(old.lifetime, 86_400 * SECOND);
    assert_eq!(stored(&["Last-Modified: yesterday"]).reason.name(), "default-ttl");
}

#[test]
fn vary_with_an_asterisk_anywhere_is_not_stored() {
    for response in [&["Vary: *"][..], &["Vary: Accept, *"], &["Vary: Accept", "Vary: *"]] {
        assert_eq!(why(&forced(), &[], 200, response), "vary-any");
    }
    let names: Vec<_> = (0..33).map(|index| format!("x-{index}")).collect();
    assert_eq!(why(&usual(), &[], 200, &[&format!("Vary: {}", names.join(","))]), "vary-too-many");
    assert_eq!(why(&usual(), &[], 200, &["Vary: Accept, x-*"]), "default-ttl");
}

#[test]
fn cookies_follow_the_policy() {
    let set_cookie = ["Set-Cookie: a=1", "Cache-Control: max-age=9"];
    assert_eq!(why(&usual(), &[], 200, &set_cookie), "set-cookie");
    let removing = policy(r#"{"defaultTTL": 1000, "setCookie": "remove"}"#);
    assert!(stored(&removing, 200, &set_cookie).removes_set_cookie);

    let cookie = ["Cookie: id=1; theme=dark"];
    assert_eq!(why(&usual(), &cookie, 200, &[]), "cookie");
    assert_eq!(why(&usual(), &cookie, 200, &["Cache-Control: max-age=9"]), "max-age");
    assert_eq!(why(&forced(), &cookie, 200, &[]), "cookie");
    assert_eq!(why(&forced(), &cookie, 200, &["Cache-Control: max-age=9"]), "forced-ttl");
    let keyed = policy(r#"{"defaultTTL": 1000, "cacheKey": {"cookies": ["id", "theme"]}}"#);
    assert_eq!(why(&keyed, &cookie, 200, &[]), "default-ttl");
    let ignoring = policy(r#"{"defaultTTL": 1000, "requestCookies": "ignore"}"#);
    assert_eq!(why(&ignoring, &cookie, 200, &[]), "default-ttl");
}

#[test]
fn lifetime_of_zero_is_no_permission_to_share_what_cookies_got() {
    let cookie = ["Cookie: id=1"];
    for lifetime in ["Cache-Control: max-age=0", "Cache-Control: max-age=x", "Expires: 0"] {
        for policy in [usual(), forced()] {
            assert_eq!(why(&policy, &cookie, 200, &[lifetime, "ETag: \"a\""]), "cookie");
        }
        assert_ne!(why(&usual(), &[], 200, &[lifetime, "ETag: \"a\""]), "cookie");
    }
}

#[test]
fn response_that_is_stale_at_once_is_stored_only_if_its_origin_says_so() {
    let tolerant = |ttl: &str| {
        policy(&format!(r#"{{{ttl}, "staleIfError": 3600000, "staleWhileRevalidate": 60000}}"#))
    };
    let tag = "ETag: \"a\"";
    let stated = "Cache-Control: stale-while-revalidate=60, stale-if-error=60";
    for ttl in [r#""defaultTTL": 0"#, r#""forcedTTL": 0"#, r#""forcedTTL": 0, "keep": 0"#] {
        for response in [&[][..], &[tag], &[tag, stated], &[stated]] {
            assert_eq!(why(&tolerant(ttl), &[], 200, response), "zero-lifetime", "{response:?}");
        }
    }
    let zero = "Cache-Control: max-age=0";
    let usual = tolerant(r#""defaultTTL": 0"#);
    assert_eq!(why(&usual, &[], 200, &[zero]), "stale-on-arrival");
    assert_eq!(why(&usual, &[], 200, &[zero, tag]), "max-age");
    assert_eq!(why(&usual, &[], 200, &["Cache-Control: max-age=0, stale-if-error=9"]), "max-age");
    assert_eq!(why(&usual, &[], 200, &["Cache-Control: no-cache", tag]), "default-ttl");
}

#[test]
fn what_the_request_decides_stops_coalescing_only_briefly() {
    let hour = policy(r#"{"defaultTTL": 60000, "hitForMiss": 3600000}"#);
    let of =
        |request: &[&str], response: &[&str]| refusal(&hour, request, 200, response).hit_for_miss;
    assert_eq!(of(&[], &["Cache-Control: private"]), 3600 * SECOND);
    assert_eq!(of(&["Authorization: x"], &[]), SECOND);
    assert_eq!(of(&["Cache-Control: no-store"], &[]), SECOND);
    assert_eq!(of(&["Cookie: a=1"], &[]), SECOND);
    assert_eq!(refusal(&usual(), &[], 200, &["Cache-Control: private"]).hit_for_miss, 120 * SECOND);
}

#[test]
fn no_store_of_a_request_counts_unless_the_policy_ignores_requests() {
    let request = ["Cache-Control: no-store"];
    assert_eq!(why(&usual(), &request, 200, &[]), "request-no-store");
    let ignoring = policy(r#"{"defaultTTL": 1000, "ignoreRequestDirectives": true}"#);
    assert_eq!(why(&ignoring, &request, 200, &[]), "default-ttl");
}

#[test]
fn no_cache_is_stored_only_for_validation() {
    let response = ["Cache-Control: no-cache, max-age=9, stale-if-error=99", "ETag: \"a\""];
    let always = stored(&usual(), 200, &response);
    assert!(always.always_revalidate && always.must_revalidate);
    assert_eq!((always.grace, always.stale_if_error), (Duration::ZERO, Duration::ZERO));
    assert_eq!(always.keep, 3600 * SECOND);
    assert_eq!(why(&usual(), &[], 200, &response[..1]), "stale-on-arrival");
    let keepless = policy(r#"{"defaultTTL": 1000, "keep": 0}"#);
    assert_eq!(why(&keepless, &[], 200, &response), "stale-on-arrival");
}

#[test]
fn stale_use_follows_origin_then_policy_and_restrictions_win() {
    let policy =
        policy(r#"{"defaultTTL": 60000, "staleWhileRevalidate": 10000, "staleIfError": 20000}"#);
    let windows = |directives: &str| {
        let stored = stored(
            &policy,
            200,
            &[&format!("Cache-Control: max-age=9{directives}"), "ETag: \"a\""],
        );
        (
            stored.grace.as_secs(),
            stored.grace_reason.name(),
            stored.stale_if_error.as_secs(),
            stored.stale_if_error_reason.name(),
        )
    };
    assert_eq!(windows(""), (10, "policy", 20, "policy"));
    assert_eq!(windows(", stale-while-revalidate=1, stale-if-error=2"), (1, "origin", 2, "origin"));
    assert_eq!(windows(", stale-while-revalidate=x"), (0, "origin", 20, "policy"));
    assert_eq!(
        windows(", must-revalidate, stale-if-error=2"),
        (0, "must-revalidate", 0, "must-revalidate")
    );
    assert_eq!(windows(", proxy-revalidate"), (0, "proxy-revalidate", 0, "proxy-revalidate"));
    assert_eq!(windows(", s-maxage=5"), (0, "s-maxage", 0, "s-maxage"));
    assert_eq!(windows(", s-maxage=5, stale-while-revalidate=7"), (7, "origin", 0, "s-maxage"));
}

#[test]
fn grace_is_fixed_and_zero_means_zero() {
    let grace =
        |milliseconds: u64| policy(&format!(r#"{{"defaultTTL": 60000, "grace": {milliseconds}}}"#));
    let response = ["Cache-Control: max-age=9, stale-while-revalidate=77"];
    assert_eq!(stored(&grace(0), 200, &response).grace, Duration::ZERO);
    assert_eq!(stored(&grace(5000), 200, &response).grace, 5 * SECOND);
    let zero = stored(&grace(5000), 200, &["Cache-Control: max-age=0", "ETag: \"a\""]);
    assert_eq!((zero.grace, zero.grace_reason.name()), (Duration::ZERO, "always-stale"));
}

#[test]
fn keep_covers_the_window_for_errors() {
    let policy =
        policy(r#"{"defaultTTL": 60000, "grace": 5000, "staleIfError": 30000, "keep": 10000}"#);
    assert_eq!(stored(&policy, 200, &[]).keep, 25 * SECOND);
    assert_eq!(stored(&policy, 200, &["ETag: \"a\""]).keep, 25 * SECOND);
    assert_eq!(stored(&usual(), 200, &[]).keep, Duration::ZERO);
    assert_eq!(stored(&usual(), 200, &["ETag: \"a\""]).keep, 3600 * SECOND);
}

#[test]
fn response_that_is_stale_on_arrival_is_kept_for_validation() {
    let response = ["Cache-Control: max-age=10", "Age: 100", "ETag: \"a\""];
    let late = stored(&usual(), 200, &response);
    assert_eq!(late.origin, Timestamp::from_seconds(NOW - 100));
    assert_eq!(late.keep, (3600 + 90) * SECOND);
    assert_eq!(why(&usual(), &[], 200, &response[..2]), "stale-on-arrival");
    let tolerant = policy(r#"{"defaultTTL": 1000, "staleIfError": 3600000}"#);
    assert_eq!(why(&tolerant, &[], 200, &response[..2]), "max-age");
}

#[test]
fn size_and_tags_have_limits() {
    let small =
        policy(r#"{"defaultTTL": 1000, "maxObjectSize": 10, "tagHeaders": ["Surrogate-Key"]}"#);
    assert_eq!(why(&small, &[], 200, &["Content-Length: 10"]), "default-ttl");
    assert_eq!(why(&small, &[], 200, &["Content-Length: 11"]), "too-large");
    let tags = |count: usize| format!("Surrogate-Key: {}", "t ".repeat(count));
    assert_eq!(why(&small, &[], 200, &[&tags(1024)]), "default-ttl");
    assert_eq!(why(&small, &[], 200, &[&tags(1025)]), "too-many-tags");
    assert_eq!(why(&usual(), &[], 200, &[&tags(1025)]), "default-ttl");
}

#[test]
fn only_responses_to_get_are_stored() {
    let decide = |policy: &Policy, method: &[u8]| {
        let now = Timestamp::from_seconds(NOW);
        let headers = lines(&["Cache-Control: max-age=9"]);
        let facts = StoreRequest::new(policy, method, &lines(&[]));
        let response = Response { status: 200, headers: &headers };
        let times = Exchange { requested: now, received: now };
        matches!(store::decide(policy, facts, &response, times, 0), Outcome::Stored(_))
    };
    assert!(decide(&usual(), b"GET"));
    assert!(
        !decide(&usual(), b"POST") && !decide(&usual(), b"HEAD") && !decide(&usual(), b"QUERY")
    );
}

#[test]
fn response_that_varies_by_a_repeated_header_is_not_stored() {
    let policy = policy(r#"{"defaultTTL": 60000}"#);
    let response = ["Vary: X-Lang"];
    let refused = refusal(&policy, &["X-Lang: en", "X-Lang: fr"], 200, &response);
    assert_eq!(refused.reason, NotStoredReason::VaryRepeated);
    assert!(matches!(
        decide(&policy, &["X-Lang: en", "X-A: 1", "X-A: 2"], 200, &response),
        Outcome::Stored(_)
    ));
}
