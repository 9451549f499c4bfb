//! The field Cache-Status, and the words and sentences of reasons.

use ghost_core::cache::lookup::HitReason;
use ghost_core::cache::status::{CacheStatus, Forward};
use ghost_core::cache::store::WindowReason;
use ghost_core::cache::{BypassReason, NotStoredReason, RevalidateReason};
use proptest::prelude::*;

fn written(status: &CacheStatus<'_>) -> String {
    let mut value = Vec::new();
    status.write("gateway", &mut value);
    String::from_utf8(value).unwrap()
}

#[test]
fn parameters_have_the_order_of_the_rfc() {
    let status = CacheStatus {
        forward_status: Some(200),
        ttl: Some(-5),
        stored: true,
        collapsed: Some(true),
        key: Some(b"a\"\\\xff\n"),
        detail: Some(b"why"),
        ..CacheStatus::forwarded(Forward::VaryMiss)
    };
    assert_eq!(
        written(&status),
        r#"gateway; fwd=vary-miss; fwd-status=200; ttl=-5; stored; collapsed; key="a\"\\??"; detail="why""#
    );
    assert_eq!(written(&CacheStatus::hit()), "gateway; hit");
}

#[test]
fn request_that_waited_in_vain_is_not_collapsed() {
    let status = CacheStatus { collapsed: Some(false), ..CacheStatus::forwarded(Forward::Miss) };
    assert_eq!(written(&status), "gateway; fwd=miss; collapsed=?0");
}

proptest! {
    #[test]
    fn any_text_becomes_a_valid_string(text in prop::collection::vec(any::<u8>(), 0..400), ttl in any::<i64>()) {
        let status = CacheStatus { ttl: Some(ttl), detail: Some(&text), ..CacheStatus::hit() };
        let written = written(&status);
        let inner = written.split_once("detail=\"").unwrap().1.strip_suffix('"').unwrap();
        prop_assert!(inner.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
        let unescaped = inner.replace("\\\\", "").replace("\\\"", "");
        prop_assert!(!unescaped.contains(['"', '\\']));
        let digits = written.split("ttl=").nth(1).unwrap().bytes().filter(u8::is_ascii_digit);
        prop_assert!(digits.count() >= 1);
        prop_assert!(written.len() < 600);
    }
}

/// What is counted by the number of a reason is named by its place.
#[test]
fn every_reason_is_at_the_place_of_its_number() {
    let all = NotStoredReason::ALL;
    assert!(all.iter().enumerate().all(|(place, &reason)| reason as usize == place));
    assert_eq!(all.len(), NotStoredReason::Stale as usize + 1, "the last one");
}

#[test]
fn every_reason_has_a_word_of_its_own_and_a_sentence() {
    use BypassReason as B;
    use HitReason as H;
    use NotStoredReason as N;
    use RevalidateReason as R;
    use WindowReason as W;
    check(&N::ALL.map(|reason| (reason.name(), reason.to_string())));
    let passes = [
        B::Upgrade,
        B::Method,
        B::Precondition,
        B::Body,
        B::HiddenKey,
        B::BypassedMethod,
        B::Header,
        B::Cookie,
    ];
    check(&passes.map(|reason| (reason.name(), reason.to_string())));
    let hits = [H::Fresh, H::Immutable, H::Budget, H::Grace, H::MaxStale];
    check(&hits.map(|reason| (reason.name(), reason.to_string())));
    let forwards =
        [R::Stale, R::Invalidated, R::AlwaysRevalidate, R::NoCache, R::MaxAge, R::MinFresh];
    check(&forwards.map(|reason| (reason.name(), reason.to_string())));
    let windows = [
        W::NoCache,
        W::MustRevalidate,
        W::ProxyRevalidate,
        W::SMaxage,
        W::AlwaysStale,
        W::Origin,
        W::Policy,
    ];
    check(&windows.map(|reason| (reason.name(), reason.to_string())));
}

fn check(reasons: &[(&str, String)]) {
    for (index, (name, sentence)) in reasons.iter().enumerate() {
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{name}");
        assert!(sentence.len() > 20, "{name}: {sentence}");
        assert!(reasons[..index].iter().all(|(other, _)| other != name), "{name} occurs twice");
    }
}
