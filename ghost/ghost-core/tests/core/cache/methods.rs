//! PURGE, BAN and PURGEKEYS as content management systems send them.

use ghost_core::cache::index::Mode;
use ghost_core::cache::purge::methods::{reads_path_as_expression, Asked, Method};
use ghost_core::cache::purge::{Named, Purge};
use proptest::prelude::*;

use crate::support::cases;

fn read(method: &str, target: &str, headers: &[(&str, &str)]) -> Result<Purge, String> {
    let method = Method::parse(method.as_bytes()).unwrap();
    let target = target.as_bytes();
    let asked = Asked { method, host: b"a.example", target, namespace: "shop" };
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    asked.read(&headers).map_err(|why| why.to_string())
}

/// What is named, in short.
fn named(method: &str, target: &str, headers: &[(&str, &str)]) -> Result<Vec<String>, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let purge = read(method, target, headers)?;
    assert_eq!(purge.owners.unwrap().namespaces, ["shop"], "whatever it names");
    let short = |named: &Named| match named {
        Named::Uri { host, target } => format!("uri {}{}", text(host), text(target)),
        Named::Prefix { host, prefix } => format!("prefix {}{}", text(host), text(prefix)),
        Named::Matching { host, pattern } => format!("matching {} {pattern:?}", text(host)),
        Named::Host(host) => format!("host {}", text(host)),
        Named::Tags(tags) => {
            let tags: Vec<_> = tags.iter().map(|tag| text(tag)).collect();
            format!("tags {}", tags.join(" + "))
        }
        Named::Everything => "everything".to_owned(),
        Named::Route(route) => panic!("{route}"),
    };
    Ok(purge.targets.iter().map(short).collect())
}

fn tags(field: &str, value: &str) -> Result<String, String> {
    named("PURGE", "/", &[(field, value)]).map(|all| all.join(" / "))
}

#[test]
fn expressions_for_tags_are_read_as_the_tags_that_they_consist_of() {
    for (value, expected) in [
        // Magento
        ("((^|,)cat_p_1(,|$))", "tags cat_p_1"),
        ("((^|,)cat_p_1(,|$))|((^|,)cms_b_a.b(,|$))", "tags cat_p_1 + cms_b_a.b"),
        (".*", "everything"),
        // FOSHttpCache, now and before
        ("(^|,)(tea|a\\-b|x\\|y)(,|$)", "tags tea + a-b + x|y"),
        ("(^|,)tea(,|$)", "tags tea"),
        ("(tea|front page)(,.+)?$", "tags tea + front page"),
        // Drupal, WordPress, xkey
        ("node:1|config:system.menu.main", "tags node:1 + config:system.menu.main"),
        ("a, b ,c", "tags a + b + c"),
    ] {
        assert_eq!(tags("X-Cache-Tags", value).as_deref(), Ok(expected), "{value}");
    }
}

#[test]
fn list_is_split_as_the_field_of_a_response_that_is_stored() {
    for (field, value, expected) in [
        ("Surrogate-Key", "a,b c|d \\e .*", "tags a,b + c|d + \\e + .*"),
        ("xkey", "a,b c|d\te\\", "tags a + b + c|d + e\\"),
        ("xkey-purge", "(a|b) c", "tags (a|b) + c"),
        ("xkey-softpurge", ".*", "tags .*"),
        ("Cache-Tag", "front page, c|d", "tags front page + c|d"),
        ("X-Cache-Tags", "front page, c|d", "tags front page + c + d"),
        ("X-Magento-Tags-Pattern", "front page, c|d", "tags front page + c + d"),
        ("Cache-Tags", "node:1 a,c|d", "tags node:1 + a + c + d"),
        ("Purge-Cache-Tags", "node:1 a", "tags node:1 + a"),
    ] {
        assert_eq!(tags(field, value).as_deref(), Ok(expected), "{field}: {value}");
    }
    assert_eq!(tags("xkey", " , "), Err("xkey: names no tag".to_owned()));
}

#[test]
fn unknown_field_that_may_name_what_to_invalidate_is_rejected() {
    for field in ["X-Magento-Tags", "x-surrogate-keys", "X-PURGE-all", "X-Ban-Url", "X-Pool"] {
        for method in ["PURGE", "BAN", "PURGEKEYS"] {
            let why = named(method, "/x", &[("Accept", "a"), (field, "y")]).unwrap_err();
            assert_eq!(why, format!("{field}: is not supported; remove it"), "{method}");
        }
    }
    let other = [("Accept", "tag"), ("X-Forwarded-For", "1"), ("X-Gateway-Route", "a/purge")];
    assert!(named("PURGE", "/x", &other).is_ok());
}

#[test]
fn path_is_an_expression_only_where_no_header_says_what_to_invalidate() {
    let reads = |method: &str, headers: &[(&str, &str)]| {
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        reads_path_as_expression(Method::parse(method.as_bytes()).unwrap(), &headers[..])
    };
    assert!(reads("BAN", &[]) && reads("BAN", &[("accept", "a")]));
    assert!(reads("PURGE", &[("x-purge-method", "regex")]));
    assert!(reads("PURGE", &[("X-Purge-Method", "prefix")]));
    assert!(!reads("PURGE", &[]) && !reads("PURGE", &[("X-Purge-Method", "exact")]));
    assert!(!reads("BAN", &[("xkey", "a")]) && !reads("BAN", &[("X-Host", "^a$")]));
    assert!(!reads("PURGEKEYS", &[("xkey-purge", "a")]));
}

#[test]
fn expressions_that_are_more_than_tags_are_rejected() {
    for value in [
        "",
        " ",
        "*",
        "a.*",
        "a+",
        "[ab]",
        "(a|b)",
        "^a$",
        "a(,|$)",
        "(^|,)a",
        "((^|,)a(,|$))|b",
        "((^|,)a(,|$))|((^|,)b.*(,|$))",
        "(^|,)(a|)(,|$)",
        "(^|,)((a|b)|c)(,|$)",
        "\\d",
        "a\\",
        "(?i)a",
        "a$|b",
    ] {
        let why = tags("X-Cache-Tags", value).unwrap_err();
        assert!(why.starts_with("X-Cache-Tags: only exact tags are supported"), "{value}: {why}");
    }
}

#[test]
fn each_field_with_tags_goes_with_purge_and_ban_and_only_one_of_them() {
    for field in ["X-Magento-Tags-Pattern", "x-cache-tags", "Cache-Tags", "Surrogate-Key", "xkey"] {
        for method in ["PURGE", "BAN"] {
            let all = [("X-Other", "y"), (field, "a")];
            assert_eq!(named(method, "/any", &all).unwrap(), ["tags a"], "{method} {field}");
        }
    }
    let two = named("BAN", "/", &[("Cache-Tags", "a"), ("xkey", "a")]).unwrap_err();
    assert_eq!(two, "Cache-Tags and xkey: send one of them");
}

#[test]
fn purge_names_its_uri_or_what_its_method_says() {
    let purge = |how: &str| named("PURGE", "/a?b=1", &[("X-Purge-Method", how)]);
    assert_eq!(named("PURGE", "/a?b=1", &[]).unwrap(), ["uri a.example/a?b=1"]);
    for how in ["default", "exact"] {
        assert_eq!(purge(how).unwrap(), ["uri a.example/a?b=1"]);
    }
    assert_eq!(purge("prefix").unwrap(), ["prefix a.example/a?b=1"]);
    assert!(purge("regex").unwrap()[0].starts_with("matching a.example "));
    for (how, why) in [("tags", "X-Cache-Tags-Pattern is absent"), ("Regex", "write default")] {
        assert!(purge(how).unwrap_err().starts_with("X-Purge-Method: "), "{how}");
        assert!(purge(how).unwrap_err().contains(why), "{how}");
    }
    let both = named("PURGE", "/", &[("X-Purge-Method", "regex"), ("xkey", "a")]).unwrap_err();
    assert_eq!(both, "X-Purge-Method: does not go with tags; remove it");
}

#[test]
fn ban_names_hosts_and_expressions() {
    let ban = |headers: &[(&str, &str)]| named("BAN", "/", headers);
    assert_eq!(
        ban(&[("X-Host", "^(b.example|C\\.example:80)$")]).unwrap(),
        ["host b.example", "host c.example"]
    );
    assert_eq!(
        ban(&[("X-Host", ".*"), ("X-Url", ".*"), ("X-Content-Type", ".*")]).unwrap(),
        ["everything"]
    );
    let each = ban(&[("X-Host", "^(b.example|c.example)$"), ("X-Url", "^/x")]).unwrap();
    assert_eq!(each.len(), 2);
    assert!(each[1].starts_with("matching c.example "), "{each:?}");
    let defaults = [("X-Host", ".*"), ("X-Url", ".*"), ("X-Content-Type", ".*"), ("xkey", "a")];
    assert_eq!(ban(&defaults).unwrap(), ["tags a"]);
    for (headers, why) in [
        (&[("X-Url", "^/x")][..], "X-Host: name the hosts"),
        (&[("X-Host", ".*"), ("X-Url", "^/x")], "X-Host: name the hosts"),
        (&[("X-Host", "b.example"), ("xkey", "a")], "X-Host: does not go with tags"),
        (&[("X-Url", "^/x"), ("xkey", "a")], "X-Url: does not go with tags"),
        (&[("X-Content-Type", "text/html"), ("xkey", "a")], "X-Content-Type: only .*"),
        (&[("X-Host", "^(b.example|)$")], "X-Host: only names of hosts"),
        (&[("X-Host", "^b c$")], "X-Host: only names of hosts"),
        (&[("X-Host", "b.example")], "X-Host: matches within names of other hosts"),
        (&[("X-Host", "^b.example")], "X-Host: matches within names of other hosts"),
        (&[("X-Host", "(b.example|c.example)$"), ("X-Url", "x")], "X-Host: matches within"),
        (&[("X-Host", "^b.example$"), ("X-Url", "(")], "X-Url: \"(\" is not a regular expression"),
        (&[], "this BAN names nothing"),
        (&[("X-Ban-Url", "x")], "X-Ban-Url: is not supported"),
    ] {
        let found = ban(headers).unwrap_err();
        assert!(found.starts_with(why), "{headers:?}: {found}");
    }
    assert!(named("BAN", "/.*", &[]).unwrap()[0].starts_with("matching a.example "));
}

#[test]
fn only_a_soft_purge_of_keys_is_soft() {
    for (method, headers, mode) in [
        ("PURGEKEYS", &[("xkey-softpurge", "a")][..], Mode::Soft),
        ("PURGEKEYS", &[("xkey-purge", "a")], Mode::Hard),
        ("BAN", &[("Cache-Tags", "a")], Mode::Hard),
        ("PURGE", &[], Mode::Hard),
    ] {
        assert_eq!(read(method, "/", headers).unwrap().mode, mode, "{method} {headers:?}");
    }
    assert!(
        read("PURGEKEYS", "/", &[]).is_err() && read("PURGEKEYS", "/", &[("xkey", "a")]).is_err()
    );
}

proptest! {
    #![proptest_config(cases(2_000))]

    /// No text becomes a condition: it is tags without the signs of expressions, or rejected.
    #[test]
    fn no_header_makes_more_than_tags(value in "[ a-c(^|,)$.*+?\\\\\\[\\]{}\"&=~]{0,24}") {
        match read("BAN", "/", &[("Cache-Tags", &value)]).map(|purge| purge.targets) {
            Ok(targets) => match &targets[..] {
                [Named::Everything] => prop_assert_eq!(value.trim(), ".*"),
                [Named::Tags(tags)] => for tag in tags {
                    prop_assert!(!tag.is_empty());
                    // An escaped sign is itself, an other one would be part of an expression.
                    for sign in tag.iter().filter(|sign| b"()[]{}*+?^$|".contains(sign)) {
                        let escaped = [b'\\', *sign];
                        prop_assert!(value.as_bytes().windows(2).any(|two| two == escaped));
                    }
                },
                other => prop_assert!(false, "{other:?}"),
            },
            Err(why) => prop_assert!(why.starts_with("Cache-Tags: only exact tags"), "{}", why),
        }
    }
}
