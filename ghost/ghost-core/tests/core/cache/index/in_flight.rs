//! Objects whose fetch began before an invalidation and that are stored after it.

use ghost_core::cache::index::{
    Condition, Entry, Index, Invalidation, Mode, Moment, Scope, Target,
};

use super::{entry, ROOM};

fn invalidate(index: &Index, target: Target<'_>, scope: Scope<'_>, mode: Mode, at: u64) {
    let what = Invalidation { target, scope, mode, at: Moment::from_nanos(at) };
    assert_eq!(index.invalidate(&what, &mut |_: usize| true), 0);
}

fn verdict(index: &Index, entry: &Entry<'_>, started: u64) -> Option<Mode> {
    let found = index.insert(1, &Entry { started: Moment::from_nanos(started), ..*entry }).unwrap();
    index.remove(1);
    found
}

fn is_any(_: &[u8]) -> bool {
    true
}

const TARGETS: [Target<'static>; 9] = [
    Target::Uri { host: b"a.example", target: b"/x/y?q" },
    Target::Prefix { host: b"a.example", prefix: b"/x" },
    Target::Matching { host: b"a.example", prefix: b"/x", matches: Condition(&is_any) },
    Target::Host(b"a.example"),
    Target::Tags(&[b"t"]),
    Target::Tags(&[b"u", b"t", b"v"]),
    Target::Rule("ns/shop/0"),
    Target::Route("ns/shop"),
    Target::Everything,
];

#[test]
fn fetch_that_began_before_an_invalidation_is_reported_and_a_later_one_is_not() {
    let own = entry("a.example", "/x/y?q", &[b"s", b"t"]);
    for target in TARGETS {
        let routes = Scope::Routes(&["ns/shop", "ns/tea"]);
        for scope in [Scope::All, routes, Scope::Namespace("ns")] {
            let index = Index::new(ROOM);
            assert_eq!(verdict(&index, &own, 0), None);
            invalidate(&index, target, scope, Mode::Soft, 100);
            invalidate(&index, target, scope, Mode::Hard, 50);
            let at = |started| verdict(&index, &own, started);
            assert_eq!(at(50), Some(Mode::Hard), "{target:?} {scope:?}");
            assert_eq!(at(51), Some(Mode::Soft), "{target:?} {scope:?}");
            assert_eq!(at(100), Some(Mode::Soft), "{target:?} {scope:?}");
            assert_eq!(at(101), None, "{target:?} {scope:?}");
        }
    }
}

fn is_reported(invalidations: impl Fn(&Index), entry: &Entry<'_>, started: u64) -> bool {
    let index = Index::new(ROOM);
    invalidations(&index);
    verdict(&index, entry, started).is_some()
}

#[test]
fn fetch_of_another_object_is_not_reported() {
    let own = entry("a.example", "/x/y?q", &[b"t"]);
    for target in TARGETS {
        for scope in [Scope::Routes(&["other/route"]), Scope::Namespace("other")] {
            let scoped = |index: &Index| invalidate(index, target, scope, Mode::Hard, 100);
            assert!(!is_reported(scoped, &own, 10), "{target:?} crosses its scope");
        }
    }
    let other = Entry { route: "ns/r", rule: "ns/r/0", ..entry("b.example", "/x/y", &[b"T"]) };
    for target in &TARGETS[..8] {
        let unscoped = |index: &Index| invalidate(index, *target, Scope::All, Mode::Hard, 100);
        assert!(!is_reported(unscoped, &other, 10), "{target:?} covers too much");
    }
}

#[test]
fn prefixes_of_the_past_are_remembered_beyond_those_that_are_kept() {
    let invalidations = |index: &Index| {
        let first = Target::Prefix { host: b"a.example", prefix: b"/first/" };
        invalidate(index, first, Scope::Routes(&["ns/shop"]), Mode::Hard, 100);
        for n in 0..100 {
            let (host, prefix) = (format!("h{n}"), format!("/{n}"));
            let target = Target::Prefix { host: host.as_bytes(), prefix: prefix.as_bytes() };
            invalidate(index, target, Scope::All, Mode::Soft, 100);
        }
    };
    let own = entry("a.example", "/first/x", &[]);
    let index = Index::new(ROOM);
    invalidations(&index);
    assert_eq!(verdict(&index, &own, 100), Some(Mode::Hard));
    assert_eq!(verdict(&index, &own, 101), None);
    // It covers its host now, for its routes.
    assert!(is_reported(invalidations, &entry("a.example", "/second", &[]), 100));
    let of_other = Entry { route: "ns/other", rule: "ns/other/0", ..own };
    assert!(!is_reported(invalidations, &of_other, 100));
}

#[test]
fn long_prefixes_and_large_scopes_cover_too_much_rather_than_too_little() {
    let index = Index::new(ROOM);
    let long = format!("/{}", "x".repeat(2_000));
    let routes: Vec<_> = (0..5_000).map(|n| format!("ns/r{n}")).collect();
    let routes: Vec<_> = routes.iter().map(String::as_str).collect();
    let prefix = Target::Prefix { host: b"a.example", prefix: long.as_bytes() };
    invalidate(&index, prefix, Scope::All, Mode::Soft, 100);
    assert_eq!(verdict(&index, &entry("a.example", &long, &[]), 10), Some(Mode::Soft));
    invalidate(&index, prefix, Scope::Routes(&routes), Mode::Hard, 100);
    let of = |route, rule| Entry { route, rule, ..entry("a.example", &long, &[b"t"]) };
    assert_eq!(verdict(&index, &of("ns/r4999", "rule"), 10), Some(Mode::Hard));
    invalidate(&index, Target::Tags(&[b"t"]), Scope::Routes(&routes), Mode::Hard, 200);
    assert_eq!(verdict(&index, &of("ns/r17", "rule"), 150), Some(Mode::Hard));
    assert_eq!(verdict(&index, &of("ns/r17", "rule"), 201), None);
}

#[test]
fn memory_of_invalidations_is_bounded() {
    let index = Index::new(ROOM);
    let empty = index.usage().bytes;
    let routes: Vec<_> = (0..64).map(|n| format!("ns/r{n}")).collect();
    let routes: Vec<_> = routes.iter().map(String::as_str).collect();
    for n in 0..500 {
        let prefix = format!("/{n}{}", "x".repeat(60_000));
        let target = Target::Prefix { host: b"a.example", prefix: prefix.as_bytes() };
        invalidate(&index, target, Scope::Routes(&routes), Mode::Soft, n);
        invalidate(&index, Target::Tags(&[prefix.as_bytes()]), Scope::All, Mode::Soft, n);
    }
    let grown = index.usage().bytes - empty;
    assert!(grown <= 64 * 2048, "{grown}");
}

const SECOND: u64 = 1_000_000_000;

/// Invalidate so many URIs of a host that tenants have in common, as successful POSTs do.
fn flood(index: &Index, scope: Scope<'_>, count: usize, at: u64) {
    for n in 0..count {
        let target = format!("/{scope:?}/{n}");
        let uri = Target::Uri { host: b"a.example", target: target.as_bytes() };
        invalidate(index, uri, scope, Mode::Hard, at);
    }
}

/// How many of a thousand objects are reported that no invalidation names.
fn reported(index: &Index, started: u64) -> usize {
    let is_reported = |n: &usize| {
        let (target, tag) = (format!("/page/{n}"), format!("tag-{n}"));
        let tags = [&b"all"[..], tag.as_bytes(), b"front"];
        verdict(index, &entry("a.example", &target, &tags), started).is_some()
    };
    (0..1_000).filter(is_reported).count()
}

#[test]
fn thousands_of_invalidations_of_other_names_concern_no_fetch() {
    for scope in [Scope::All, Scope::Namespace("ns"), Scope::Routes(&["ns/shop"])] {
        let index = Index::new(ROOM);
        flood(&index, scope, 5_000, 100);
        assert_eq!(reported(&index, 10), 0, "{scope:?}");
    }
}

#[test]
fn flood_of_one_namespace_concerns_no_fetch_of_another() {
    let index = Index::new(ROOM);
    flood(&index, Scope::Namespace("ns"), 100, 50);
    flood(&index, Scope::Namespace("other"), 60_000, 100);
    assert_eq!(reported(&index, 10), 0);
}

#[test]
fn what_was_invalidated_is_reported_whatever_was_invalidated_since() {
    let index = Index::new(ROOM);
    let targets: Vec<_> = (0..500).map(|n| format!("/page/{n}")).collect();
    let uris =
        targets.iter().map(|target| Target::Uri { host: b"a.example", target: target.as_bytes() });
    for uri in uris {
        invalidate(&index, uri, Scope::Namespace("ns"), Mode::Soft, 50);
    }
    for namespace in ["ns", "other", "third"] {
        flood(&index, Scope::Namespace(namespace), 20_000, 60);
    }
    flood(&index, Scope::Namespace("ns"), 60_000, 100 * SECOND);
    for target in &targets {
        let own = entry("a.example", target, &[]);
        assert!(verdict(&index, &own, 50) >= Some(Mode::Soft), "{target}");
        assert_eq!(verdict(&index, &own, 100 * SECOND + 1), None);
    }
}

/// More of them than there is room for, of so many owners that none has several in one place.
#[test]
fn invalidations_of_the_past_take_no_room_from_later_ones() {
    let index = Index::new(ROOM);
    for n in 0..1_000 {
        flood(&index, Scope::Namespace(&format!("ns-{n}")), 100, SECOND);
    }
    let started = 100 * SECOND;
    for n in 0..1_000 {
        flood(&index, Scope::Namespace(&format!("ns-{n}")), 4, started + SECOND);
    }
    assert_eq!(reported(&index, started), 0);
}
