//! Which objects an invalidation visits.

use std::sync::Mutex;

use ghost_core::cache::index::{Condition, Entry, Index, Scope, Target};

use super::{entry, soft, visited, ROOM};

const NOTHING: [usize; 0] = [];

#[test]
fn variants_and_keys_of_a_uri_are_one_uri_and_another_query_is_another() {
    let index = Index::new(ROOM);
    for handle in 1..=3 {
        index.insert(handle, &entry("a.example", "/x?q", &[])).unwrap();
    }
    index.insert(4, &entry("a.example", "/x", &[])).unwrap();
    index.insert(5, &entry("b.example", "/x?q", &[])).unwrap();
    let uri = |host: &'static str, target: &'static str| {
        let target = Target::Uri { host: host.as_bytes(), target: target.as_bytes() };
        visited(&index, target, Scope::All)
    };
    assert_eq!(uri("a.example", "/x?q"), [1, 2, 3]);
    assert_eq!(uri("a.example", "/x"), [4]);
    assert_eq!(uri("a.example", "/"), NOTHING);
    assert_eq!(uri("c.example", "/x"), NOTHING);
}

#[test]
fn prefix_names_what_begins_with_its_bytes() {
    let index = Index::new(ROOM);
    for (handle, target) in (1..).zip(["/", "/tea", "/tea/", "/tea/green", "/teapot", "/t", ""]) {
        index.insert(handle, &entry("a.example", target, &[])).unwrap();
    }
    index.insert(20, &entry("b.example", "/tea", &[])).unwrap();
    let prefix = |prefix: &'static str| {
        let target = Target::Prefix { host: b"a.example", prefix: prefix.as_bytes() };
        visited(&index, target, Scope::All)
    };
    assert_eq!(prefix("/tea"), [2, 3, 4, 5]);
    assert_eq!(prefix("/tea/"), [3, 4]);
    assert_eq!(prefix("/tea/green/x"), NOTHING);
    assert_eq!(prefix(""), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(visited(&index, Target::Host(b"b.example"), Scope::All), [20]);
}

#[test]
fn tags_are_compared_as_bytes_and_an_object_with_several_counts_once() {
    let index = Index::new(ROOM);
    index.insert(1, &entry("a.example", "/1", &[b"x", b"x", b"y"])).unwrap();
    index.insert(2, &entry("a.example", "/2", &[b"X", b"\xff\x00", b""])).unwrap();
    let tags = |tags: &[&[u8]]| visited(&index, Target::Tags(tags), Scope::All);
    assert_eq!(tags(&[b"x", b"y", b"x"]), [1]);
    assert_eq!(tags(&[b"X"]), [2]);
    assert_eq!(tags(&[b"\xff"]), NOTHING);
    assert_eq!(tags(&[b"\xff\x00", b"", b"y"]), [1, 2]);
    assert_eq!(tags(&[]), NOTHING);
    assert_eq!(index.usage().tags, 5);
}

#[test]
fn purge_by_ten_thousand_tags_finds_every_object_once() {
    let index = Index::new(ROOM);
    let names: Vec<_> = (0..10_000_u32).map(|n| format!("tag-{n}").into_bytes()).collect();
    let tags: Vec<_> = names.iter().map(Vec::as_slice).collect();
    for handle in 0..2_000 {
        let own = &tags[handle * 5..handle * 5 + 5];
        index.insert(handle, &entry("a.example", "/", own)).unwrap();
    }
    assert_eq!(visited(&index, Target::Tags(&tags), Scope::All).len(), 2_000);
}

#[test]
fn rules_and_routes_are_told_apart_and_the_scope_restricts_every_target() {
    let index = Index::new(ROOM);
    let of = |rule, route| Entry { rule, route, ..entry("a.example", "/x", &[b"t"]) };
    index.insert(1, &of("ns/shop/0", "ns/shop")).unwrap();
    index.insert(2, &of("ns/shop/1", "ns/shop")).unwrap();
    index.insert(3, &of("other/shop/0", "other/shop")).unwrap();
    assert_eq!(visited(&index, Target::Rule("ns/shop/1"), Scope::All), [2]);
    assert_eq!(visited(&index, Target::Route("ns/shop"), Scope::All), [1, 2]);
    assert_eq!(visited(&index, Target::Everything, Scope::All), [1, 2, 3]);
    let own = Scope::Routes(&["ns/shop", "ns/tea"]);
    for target in [
        Target::Uri { host: b"a.example", target: b"/x" },
        Target::Prefix { host: b"a.example", prefix: b"/" },
        Target::Host(b"a.example"),
        Target::Tags(&[b"t"]),
        Target::Tags(&[b"t", b"u"]),
        Target::Route("ns/shop"),
        Target::Everything,
    ] {
        assert_eq!(visited(&index, target, own), [1, 2], "{target:?}");
        assert_eq!(visited(&index, target, Scope::Routes(&[])), NOTHING, "{target:?}");
    }
    assert_eq!(visited(&index, Target::Route("other/shop"), own), NOTHING);
    assert_eq!(visited(&index, Target::Rule("other/shop/0"), own), NOTHING);
    assert_eq!(visited(&index, Target::Rule("ns/shop/0"), own), [1]);
}

#[test]
fn condition_is_asked_once_about_each_uri_with_the_prefix() {
    let index = Index::new(ROOM);
    for handle in 0..2_000 {
        let target = format!("/{}/{}", if handle % 2 == 0 { "a" } else { "b" }, handle / 4);
        index.insert(handle, &entry("a.example", &target, &[])).unwrap();
    }
    index.insert(2_000, &entry("b.example", "/a/7", &[])).unwrap();
    let asked = Mutex::new(Vec::new());
    let ends_with_7 = |target: &[u8]| {
        asked.lock().unwrap().push(target.to_vec());
        target.ends_with(b"7")
    };
    let matches = Condition(&ends_with_7);
    let target = Target::Matching { host: b"a.example", prefix: b"/a/", matches };
    let found = visited(&index, target, Scope::All);
    assert_eq!(found.len(), 100);
    assert!(found.iter().all(|handle| handle % 2 == 0 && handle / 4 % 10 == 7));
    let mut asked = asked.into_inner().unwrap();
    assert!(asked.iter().all(|target| target.starts_with(b"/a/")));
    asked.sort_unstable();
    // The two objects of a URI may be in two parts of the index.
    let repeated = asked.windows(3).any(|three| three[0] == three[2]);
    assert!((500..=1_000).contains(&asked.len()) && !repeated, "{}", asked.len());
}

#[test]
fn condition_is_not_asked_about_uris_that_only_others_serve() {
    let index = Index::new(ROOM);
    let of = |route, target| Entry { rule: route, route, ..entry("a.example", target, &[]) };
    let targets: Vec<_> = (0..3_000).map(|number| format!("/{number}")).collect();
    for (handle, target) in targets.iter().enumerate() {
        let route = if handle % 1_000 == 0 { "mine/r" } else { "theirs/r" };
        index.insert(handle, &of(route, target)).unwrap();
    }
    // Both serve it.
    index.insert(5_000, &of("theirs/r", "/shared")).unwrap();
    index.insert(5_001, &of("mine/r", "/shared")).unwrap();
    let asked = Mutex::new(Vec::new());
    let matches = |target: &[u8]| {
        asked.lock().unwrap().push(target.to_vec());
        true
    };
    let host = b"a.example";
    let target = Target::Matching { host, prefix: b"/", matches: Condition(&matches) };
    let mine = Scope::Owners { namespaces: &["mine"], routes: &[] };
    assert_eq!(visited(&index, target, mine), [0, 1_000, 2_000, 5_001]);
    let mut asked = asked.into_inner().unwrap();
    asked.sort_unstable();
    asked.dedup();
    assert_eq!(asked, [&b"/0"[..], b"/1000", b"/2000", b"/shared"]);
}

#[test]
fn namespace_is_the_first_part_of_a_route() {
    let index = Index::new(ROOM);
    let of = |route| Entry { rule: route, route, ..entry("a.example", "/x", &[b"t"]) };
    for (handle, route) in (1..).zip(["a/r", "a/s", "b/r", "ab/r"]) {
        index.insert(handle, &of(route)).unwrap();
    }
    for target in [Target::Everything, Target::Tags(&[b"t"]), Target::Host(b"a.example")] {
        assert_eq!(visited(&index, target, Scope::Namespace("a")), [1, 2]);
        assert_eq!(visited(&index, target, Scope::Namespace("a/r")), NOTHING);
    }
    assert_eq!(visited(&index, Target::Route("a/r"), Scope::Namespace("a")), [1]);
    assert_eq!(visited(&index, Target::Route("b/r"), Scope::Namespace("a")), NOTHING);
}

#[test]
fn objects_that_the_visitor_does_not_count_are_not_counted() {
    let index = Index::new(ROOM);
    for handle in 0..10 {
        index.insert(handle, &entry("a.example", "/", &[])).unwrap();
    }
    let all = soft(Target::Everything, Scope::All);
    assert_eq!(index.invalidate(&all, &mut |handle| handle % 2 == 0), 5);
}

#[test]
fn known_handle_is_replaced_and_unknown_one_is_not_removed() {
    let index = Index::new(ROOM);
    index.insert(7, &entry("a.example", "/old", &[b"old"])).unwrap();
    index.insert(7, &entry("b.example", "/new", &[b"new"])).unwrap();
    assert_eq!((index.usage().objects, index.usage().tags), (1, 1));
    assert_eq!(visited(&index, Target::Tags(&[b"old"]), Scope::All), NOTHING);
    assert_eq!(visited(&index, Target::Host(b"a.example"), Scope::All), NOTHING);
    assert_eq!(visited(&index, Target::Tags(&[b"new"]), Scope::All), [7]);
    assert!(!index.remove(8));
    assert!(index.remove(7) && !index.remove(7));
    assert_eq!(visited(&index, Target::Everything, Scope::All), NOTHING);
}

#[test]
fn visitor_that_panics_leaves_a_working_index() {
    let index = Index::new(ROOM);
    for handle in 0..3_000 {
        index.insert(handle, &entry("a.example", "/", &[b"t"])).unwrap();
    }
    let all = soft(Target::Tags(&[b"t"]), Scope::All);
    let bytes = (0..20).map(|_| {
        let mut left = 1_500;
        let mut visit = |_: usize| {
            left -= 1;
            assert!(left > 0, "deliberate");
            true
        };
        let panicking = std::panic::AssertUnwindSafe(|| index.invalidate(&all, &mut visit));
        assert!(std::panic::catch_unwind(panicking).is_err());
        index.usage().bytes
    });
    let bytes: Vec<_> = bytes.collect();
    assert_eq!(bytes[1], bytes[19], "an abandoned walk leaves a cursor");
    assert_eq!(visited(&index, Target::Everything, Scope::All).len(), 3_000);
    assert!((0..3_000).all(|handle| index.remove(handle)));
    assert_eq!(index.usage().objects, 0);
}
