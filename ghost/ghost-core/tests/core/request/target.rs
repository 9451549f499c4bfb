use std::borrow::Cow;

use ghost_core::target::{self, join, normalise, split, Malformed};
use proptest::prelude::*;

fn resolved(target: &str) -> String {
    String::from_utf8(normalise(target.as_bytes(), b"GET").unwrap().into_owned()).unwrap()
}

#[test]
fn dot_segments_are_resolved() {
    let cases = [
        ("/a/./b", "/a/b"),
        ("/a/../b", "/b"),
        ("/a/..", "/"),
        ("/a/.", "/a/"),
        ("/a/b/../..", "/"),
        ("/..", "/"),
        ("/.", "/"),
        ("/../../etc", "/etc"),
        ("/a/%2e%2E/b", "/b"),
        ("/a/.%2e/b", "/b"),
        ("/a/%2e/b", "/a/b"),
        ("/a//../b", "/a/b"),
        ("/a/b/..//c", "/a//c"),
        ("/a/../b?x=/../y", "/b?x=/../y"),
    ];
    for (target, expected) in cases {
        assert_eq!(resolved(target), expected, "{target}");
    }
}

#[test]
fn target_without_dot_segments_is_borrowed() {
    for target in [
        "/",
        "*",
        "/a//b/",
        "/...",
        "/.a",
        "/a.",
        "/a%2Fb",
        "/%2e%2e%2e",
        "/%2",
        "/a?b=/../c",
        "/%252e",
    ] {
        assert!(
            matches!(normalise(target.as_bytes(), b"OPTIONS"), Ok(Cow::Borrowed(_))),
            "{target}"
        );
    }
}

#[test]
fn invalid_target_is_malformed() {
    for target in ["", "a", "http://a/", "/a#b", "#", "**", "*?a", "?a"] {
        assert_eq!(normalise(target.as_bytes(), b"OPTIONS").unwrap_err(), Malformed, "{target}");
    }
    for method in [&b"GET"[..], b"options", b""] {
        assert_eq!(normalise(b"*", method).unwrap_err(), Malformed);
    }
}

#[test]
fn query_begins_at_the_first_question_mark() {
    assert_eq!(split(b"/a?b?c"), (&b"/a"[..], Some(&b"b?c"[..])));
    assert_eq!(split(b"/a?"), (&b"/a"[..], Some(&b""[..])));
    assert_eq!(split(b"/a"), (&b"/a"[..], None));
    assert_eq!(join(b"/a".to_vec(), Some(b"")), b"/a?");
    assert_eq!(join(b"/a".to_vec(), None), b"/a");
}

proptest! {
    #[test]
    fn resolving_dot_segments_is_idempotent(segments in prop::collection::vec("(\\.|\\.\\.|%2e|a|b|)", 0..12)) {
        let once = resolved(&format!("/{}", segments.join("/")));
        prop_assert!(once.starts_with('/'));
        prop_assert_eq!(resolved(&once), once);
    }

    #[test]
    fn any_bytes_are_a_target_or_malformed(rest in prop::collection::vec(any::<u8>(), 0..100)) {
        let target = [b"/", rest.as_slice()].concat();
        if let Ok(once) = normalise(&target, b"GET") {
            prop_assert_eq!(normalise(&once, b"GET").unwrap(), &*once);
            prop_assert_eq!(split(&once).1, split(&target).1);
        } else {
            prop_assert!(rest.contains(&b'#'));
        }
    }
}

#[test]
fn absolute_target_splits_at_its_authority() {
    let absolute = |target: &'static str| {
        target::split_absolute(target.as_bytes()).map(|(authority, rest)| {
            (authority.escape_ascii().to_string(), rest.escape_ascii().to_string())
        })
    };
    let parts = |authority: &str, rest: &str| Some((authority.to_owned(), rest.to_owned()));
    assert_eq!(absolute("http://a.example/b?c"), parts("a.example", "/b?c"));
    assert_eq!(absolute("HTTPS://a.example:8443?c"), parts("a.example:8443", "?c"));
    assert_eq!(absolute("http://a.example"), parts("a.example", ""));
    assert_eq!(absolute("http:///b"), parts("", "/b"));
    assert_eq!(absolute("/http://a.example"), None);
    assert_eq!(absolute("ftp://a.example/"), None);
    assert_eq!(absolute("*"), None);
}
