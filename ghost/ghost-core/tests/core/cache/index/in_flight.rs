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

/// Whether an object is reported by indexes whose slots are shared by different names: with a
/// hundred invalidations, four of them are wrong with a probability below 10⁻⁷.
fn is_reported(invalidations: impl Fn(&Index), entry: &Entry<'_>, started: u64) -> bool {
    (0..4).all(|_| {
        let index = Index::new(ROOM);
        invalidations(&index);
        verdict(&index, entry, started).is_some()
    })
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
