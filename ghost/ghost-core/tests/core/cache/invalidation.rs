//! What unsafe methods invalidate, what headers are removed, and tags.

use ghost_core::cache::invalidation::{is_safe, resolve, targets, Base};
use ghost_core::cache::poisoning::{treatment, Treatment};
use ghost_core::cache::tags::{Limits, TooMany, MAX_TAGS};
use ghost_core::wire::TagHeader;

use super::support::{lines, policy};

const BASE: Base<'static> =
    Base { https: false, host: b"a.example", port: 80, target: b"/b/c/d?q" };

fn resolved(reference: &str) -> Option<String> {
    resolve(&BASE, reference.as_bytes()).map(|target| String::from_utf8(target).unwrap())
}

#[test]
fn references_are_resolved_as_the_examples_of_rfc_3986() {
    for (reference, expected) in [
        ("g", "/b/c/g"),
        ("./g", "/b/c/g"),
        ("g/", "/b/c/g/"),
        ("/g", "/g"),
        ("?y", "/b/c/d?y"),
        ("g?y", "/b/c/g?y"),
        ("#s", "/b/c/d?q"),
        ("g#s", "/b/c/g"),
        ("g?y#s", "/b/c/g?y"),
        ("", "/b/c/d?q"),
        (".", "/b/c/"),
        ("..", "/b/"),
        ("../g", "/b/g"),
        ("../../g", "/g"),
        ("../../../g", "/g"),
        ("g;x=1/../y", "/b/c/y"),
        ("g?y/../x", "/b/c/g?y/../x"),
    ] {
        assert_eq!(resolved(reference).as_deref(), Some(expected), "{reference}");
    }
}

#[test]
fn other_origins_are_left_alone() {
    for reference in
        ["HTTP://A.EXAMPLE/x", "//a.example/x", "http://a.example:80/x", "http://a.example.:/x"]
    {
        assert_eq!(resolved(reference).as_deref(), Some("/x"), "{reference}");
    }
    assert_eq!(resolved("http://a.example?x").as_deref(), Some("/?x"));
    for reference in [
        "https://a.example/x",
        "http://b.example/x",
        "http://a.example:81/x",
        "http://a.example.evil/x",
        "http://u@a.example/x",
        "http:/x",
        "http:x",
        "//",
        "mailto:a",
        "javascript:x",
    ] {
        assert_eq!(resolved(reference), None, "{reference}");
    }
    assert_eq!(resolved(&"x".repeat(9000)), None);
}

#[test]
fn successful_unsafe_requests_invalidate() {
    let count = |method: &[u8], status| {
        targets(
            method,
            &BASE,
            status,
            &lines(&["Location: /x", "Content-Location: http://b.example/"]),
        )
        .count()
    };
    assert_eq!(count(b"POST", 201), 2);
    assert_eq!([b"PUT", b"XYZ"].map(|method| count(method, 303)), [2, 2]);
    assert_eq!([404, 500, 199].map(|status| count(b"DELETE", status)), [0, 0, 0]);
    assert!(["GET", "HEAD", "OPTIONS", "TRACE", "QUERY"]
        .iter()
        .all(|method| is_safe(method.as_bytes())));
    assert!(!is_safe(b"get") && !is_safe(b"PATCH"));
    assert_eq!(targets(b"POST", &BASE, 200, &lines(&["Location: /x", "Location: /y"])).count(), 1);
}

#[test]
fn headers_that_frameworks_read_are_removed_unless_keyed() {
    let plain = policy(r#"{"defaultTTL": 1}"#);
    let keyed = policy(
        r#"{"defaultTTL": 1, "requestCookies": "remove", "cacheKey": {"headers": ["X-Forwarded-Host"]}}"#,
    );
    for name in [
        "X-Forwarded-Host",
        "x-original-url",
        "X-Rewrite-URL",
        "Forwarded",
        "X-HTTP-Method-Override",
    ] {
        assert_eq!(treatment(&plain, name.as_bytes()), Treatment::Remove, "{name}");
    }
    assert_eq!(treatment(&keyed, b"x-forwarded-host"), Treatment::Keyed);
    assert_eq!(treatment(&keyed, b"Cookie"), Treatment::KeyedCookies);
    for name in [&b"Cookie"[..], b"Accept", b"X-Forwarded-For", b"Authorization", b"Host"] {
        assert_eq!(treatment(&plain, name), Treatment::Forward);
    }
}

fn tags(header: TagHeader, response: &[&str]) -> Result<Vec<String>, TooMany> {
    let mut tags = Vec::new();
    let collect = |tag: &[u8]| tags.push(String::from_utf8_lossy(tag).into_owned());
    Limits::default().read(header, &lines(response), collect).map(|()| tags)
}

#[test]
fn tags_are_separated_as_their_field_says() {
    let of = |header, line: &str| tags(header, &[line]).unwrap();
    assert_eq!(of(TagHeader::SurrogateKey, "Surrogate-Key: a  b,c é\td"), ["a", "b,c", "é", "d"]);
    assert_eq!(of(TagHeader::CacheTag, "Cache-Tag: a b,,c , d"), ["a b", "c", "d"]);
    assert_eq!(of(TagHeader::Xkey, "xkey: a, b c"), ["a", "b", "c"]);
    assert_eq!(
        of(TagHeader::CacheTags, "Cache-Tags: node:1 node_list,c"),
        ["node:1", "node_list", "c"]
    );
    assert_eq!(of(TagHeader::XCacheTags, "X-Cache-Tags: a b,c"), ["a b", "c"]);
    assert_eq!(of(TagHeader::XMagentoTags, "X-Magento-Tags: cat_p_1,FPC"), ["cat_p_1", "FPC"]);
    assert_eq!(of(TagHeader::CacheGroups, "Cache-Groups: \"a b\", \"c\";x=1"), ["a b", "c"]);
    assert_eq!(tags(TagHeader::Xkey, &["xkey: a", "XKEY: b"]).unwrap(), ["a", "b"]);
}

#[test]
fn groups_count_as_a_whole() {
    let of = |lines: &[&str]| tags(TagHeader::CacheGroups, lines).unwrap();
    assert_eq!(of(&["Cache-Groups: \"a\"", "Cache-Groups: \"b\""]), ["a", "b"]);
    for malformed in ["Cache-Groups: \"c\", \"b", "Cache-Groups: \"c\", token", "Cache-Groups: 1"] {
        assert!(of(&[malformed]).is_empty(), "{malformed}");
        assert!(of(&["Cache-Groups: \"a\"", malformed]).is_empty(), "{malformed}");
    }
}

#[test]
fn tags_beyond_the_limits_are_an_error() {
    let many =
        |count: usize| tags(TagHeader::CacheTag, &[&format!("Cache-Tag: {}", "t,".repeat(count))]);
    assert_eq!(many(MAX_TAGS).unwrap().len(), MAX_TAGS);
    assert_eq!(many(MAX_TAGS + 1), Err(TooMany));
    assert_eq!(tags(TagHeader::Xkey, &[&format!("xkey: {}", "x".repeat(1025))]), Err(TooMany));
    let line = format!("xkey: {}", "x".repeat(1000));
    assert_eq!(tags(TagHeader::Xkey, &vec![&*line; 33]), Err(TooMany));
    let groups = format!("Cache-Groups: {}", vec!["\"g\""; MAX_TAGS + 1].join(", "));
    assert_eq!(tags(TagHeader::CacheGroups, &[&groups]), Err(TooMany));
}
