//! Keys: equal exactly for requests that a naive normal form takes for equal.

use ghost_core::cache::key::{self, KeyRequest, QueryPolicy};
use ghost_core::cache::Policy;
use ghost_core::{target, Steps};
use proptest::prelude::*;

use super::support::{policy, Lines};
use crate::support::cases;

#[derive(Clone, Debug)]
struct Parts {
    rule: String,
    listener: String,
    https: bool,
    host: Vec<u8>,
    path: Vec<u8>,
    query: Option<Vec<u8>>,
    headers: Lines,
}

fn request(parts: &Parts) -> KeyRequest<'_, Lines> {
    KeyRequest {
        rule: &parts.rule,
        listener: &parts.listener,
        https: parts.https,
        host: &parts.host,
        port: key::port(&parts.host, parts.https),
        path: &parts.path,
        query: parts.query.as_deref(),
        headers: &parts.headers,
    }
}

fn key_of(policy: &Policy, parts: &Parts) -> Vec<u8> {
    let mut buffer = Vec::new();
    key::write(&policy.key, &request(parts), &Steps::of_request(), &mut buffer).unwrap();
    buffer
}

fn described(policy: &Policy, parts: &Parts) -> Vec<(String, String)> {
    key::describe(&policy.key, &request(parts), &Steps::of_request()).unwrap()
}

fn parts(query: &str, cookie: &str) -> Parts {
    Parts {
        rule: "ns/r/0".into(),
        listener: "web".into(),
        https: false,
        host: b"a.example".to_vec(),
        path: b"/".to_vec(),
        query: Some(query.into()),
        headers: vec![("Cookie".into(), cookie.into())],
    }
}

/// Short texts over bytes that separate, escape or look like a length.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(b"ab=&;%\0\x01\x02".to_vec()), 0..5)
}

prop_compose! {
    fn any_parts()(
        names in prop::sample::select(vec![("r", "l"), ("rl", ""), ("", "rl"), ("r", "")]),
        https in any::<bool>(),
        host in bytes(), path in bytes(),
        query in prop::option::of(bytes()),
        x in prop::collection::vec(bytes(), 0..3), y in prop::collection::vec(bytes(), 0..2),
        cookies in prop::collection::vec(bytes(), 0..3),
    ) -> Parts {
        let line = |name: &str, value: &Vec<u8>| (name.to_owned(), value.clone());
        let mut headers: Lines = x.iter().map(|value| line("X", value)).collect();
        headers.extend(y.iter().map(|value| line("y", value)));
        headers.extend(cookies.iter().map(|value| line("cookie", value)));
        Parts { rule: names.0.into(), listener: names.1.into(), https, host, path, query, headers }
    }
}

/// A request in which two neighbouring parts are the halves of a text.
fn split_at(place: usize, text: &[u8], at: usize) -> Parts {
    let (left, right) = (text[..at].to_vec(), text[at..].to_vec());
    let readable = |half: &[u8]| String::from_utf8(half.to_vec()).unwrap();
    let pair = |half: &[u8]| [b"a=", half].concat();
    let header = |name: &str, half: Vec<u8>| (name.to_owned(), half);
    let plain = parts("", "");
    match place {
        0 => Parts { rule: readable(&left), listener: readable(&right), ..plain },
        1 => Parts { host: left, path: right, ..plain },
        2 => Parts { headers: vec![header("x", left), header("x", right)], ..plain },
        3 => Parts { headers: vec![header("x", left), header("y", right)], ..plain },
        4 => Parts {
            headers: vec![header("cookie", pair(&left)), header("cookie", pair(&right))],
            ..plain
        },
        _ => Parts { query: Some([pair(&left), pair(&right)].join(&b'&')), ..plain },
    }
}

fn split(text: &[u8], separator: u8) -> Vec<Vec<u8>> {
    text.split(|byte| *byte == separator)
        .filter(|part| !part.is_empty())
        .map(<[u8]>::to_vec)
        .collect()
}

fn decoded_name(pair: &[u8]) -> Vec<u8> {
    // The alphabet has no hexadecimal digits but "a" and "b".
    let name = pair.split(|byte| *byte == b'=').next().unwrap();
    let text: String = name.iter().map(|byte| char::from(*byte)).collect();
    let mut decoded = text;
    for (code, byte) in [("%aa", '\u{aa}'), ("%ab", '\u{ab}'), ("%ba", '\u{ba}'), ("%bb", '\u{bb}')]
    {
        decoded = decoded.replace(code, &byte.to_string());
    }
    decoded.chars().map(|char| u8::try_from(u32::from(char)).unwrap()).collect()
}

/// What a key has to tell apart, as plain data.
fn normal_form(parts: &Parts) -> impl PartialEq + std::fmt::Debug {
    let query = parts.query.as_ref().map(|query| {
        let mut pairs = split(query, b'&');
        pairs.sort_by_key(|pair| decoded_name(pair));
        pairs
    });
    let values = |wanted: &str| -> Vec<Vec<u8>> {
        let named = parts.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        named.map(|(_, value)| value.clone()).collect()
    };
    let cookies: Vec<_> = values("cookie")
        .iter()
        .flat_map(|line| split(line, b';'))
        .filter(|pair| pair.split(|byte| *byte == b'=').next() == Some(b"a"))
        .map(|pair| pair.get(2..).unwrap_or_default().to_vec())
        .collect();
    let names = (parts.rule.clone(), parts.listener.clone(), parts.https);
    (names, parts.host.clone(), parts.path.clone(), query, values("x"), values("y"), cookies)
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn keys_are_equal_exactly_for_equal_requests(one in any_parts(), other in any_parts()) {
        let policy = policy(r#"{"defaultTTL": 1, "cacheKey": {"headers": ["x", "Y"], "cookies": ["a"]}}"#);
        let equal = normal_form(&one) == normal_form(&other);
        prop_assert_eq!(key_of(&policy, &one) == key_of(&policy, &other), equal);
        // Two random requests are seldom equal: change one part only, too.
        for change in 0..6 {
            let mut changed = one.clone();
            match change {
                0 => changed.query.clone_from(&other.query),
                1 => changed.headers.clone_from(&other.headers),
                2 => changed.path.clone_from(&other.path),
                3 => (changed.rule, changed.listener) = (other.rule.clone(), other.listener.clone()),
                _ => changed.host.clone_from(&other.host),
            }
            let equal = normal_form(&one) == normal_form(&changed);
            prop_assert_eq!(key_of(&policy, &one) == key_of(&policy, &changed), equal, "{:?} {:?}", one, changed);
        }
    }

    #[test]
    fn requests_with_the_same_key_are_described_alike(mut one in any_parts(), query in bytes()) {
        let policy = policy(r#"{"defaultTTL": 1, "cacheKey": {"headers": ["x"], "cookies": ["a"],
            "queryParameters": {"exclude": ["b"]}}}"#);
        one.query = Some(query.clone());
        let reversed = split(&query, b'&').into_iter().rev().collect::<Vec<_>>().join(&b'&');
        let other = Parts { query: Some(reversed), headers: one.headers.clone(), ..one.clone() };
        let equal = key_of(&policy, &one) == key_of(&policy, &other);
        prop_assert!(!equal || described(&policy, &one) == described(&policy, &other));
    }

    /// No byte can move from one part to the next unnoticed.
    #[test]
    fn keys_of_parts_that_concatenate_to_the_same_differ(
        text in prop::collection::vec(prop::sample::select(b"\0\x01ab".to_vec()), 1..12),
        first in any::<prop::sample::Index>(), second in any::<prop::sample::Index>()
    ) {
        let (first, second) = (first.index(text.len()), second.index(text.len()));
        prop_assume!(first != second);
        let policy = policy(r#"{"defaultTTL": 1, "cacheKey": {"headers": ["x", "y"], "cookies": ["a"]}}"#);
        for place in 0..6 {
            let key = |at| key_of(&policy, &split_at(place, &text, at));
            prop_assert_ne!(key(first), key(second), "place {}", place);
        }
    }

    #[test]
    fn order_of_different_parameters_is_irrelevant(
        mut values in prop::collection::vec(0_u8..5, 0..150), seed in any::<u64>()
    ) {
        let policy = policy(r#"{"defaultTTL": 1}"#);
        let query = |values: &[u8]| -> String {
            let pairs = values.iter().enumerate().map(|(index, value)| format!("p{value}-{index}=1"));
            pairs.collect::<Vec<_>>().join("&")
        };
        let before = query(&values);
        let mut pairs: Vec<_> = before.split('&').collect();
        let length = u64::try_from(pairs.len()).unwrap();
        pairs.rotate_left(usize::try_from(seed % length).unwrap());
        pairs.reverse();
        values.clear();
        prop_assert_eq!(key_of(&policy, &parts(&before, "")), key_of(&policy, &parts(&pairs.join("&"), "")));
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn targets_have_one_canonical_form_exactly_if_they_have_one_key(
        queries in prop::collection::vec(prop::option::of(bytes()), 2),
        list in prop::sample::select(vec!["", r#""include": ["a", "b[*"]"#, r#""exclude": ["a*"]"#, r#""exclude": []"#]),
    ) {
        let of = format!(r#"{{"defaultTTL": 1, "cacheKey": {{"queryParameters": {{{list}}}}}}}"#);
        let policy = policy(&of);
        let of_shape = policy.key.query.shape().map(|shape| QueryPolicy::of_shape(&shape));
        let canonical = |query: &Option<Vec<u8>>| {
            let target = target::join(b"/".to_vec(), query.as_deref());
            let canonical = policy.key.query.canonical(&target);
            prop_assert_eq!(&policy.key.query.canonical(&canonical), &canonical);
            if let Some(of_shape) = &of_shape {
                prop_assert_eq!(&of_shape.canonical(&target), &canonical);
            } else {
                prop_assert_eq!(&QueryPolicy::All.canonical(&target), &canonical);
            }
            Ok(canonical)
        };
        let keys = queries.iter().map(|query| key_of(&policy, &Parts { query: query.clone(), ..parts("", "") }));
        let keys: Vec<_> = keys.collect();
        prop_assert_eq!(keys[0] == keys[1], canonical(&queries[0])? == canonical(&queries[1])?);
    }
}

#[test]
fn query_parameters_are_normalised_as_documented() {
    let all = policy(r#"{"defaultTTL": 1}"#);
    let same =
        |one: &str, other: &str| key_of(&all, &parts(one, "")) == key_of(&all, &parts(other, ""));
    assert!(same("a=1&b=2", "b=2&a=1") && same("a=1&&b=2&", "a=1&b=2") && same("", "&&"));
    assert!(!same("a=1&a=2", "a=2&a=1") && !same("a", "a=") && !same("a=1", "a=1&a=1"));
    assert!(!same("%61=1&a=2", "a=2&%61=1") && !same("a=%20", "a=+"));
    let without = Parts { query: None, ..parts("", "") };
    assert_ne!(key_of(&all, &without), key_of(&all, &parts("", "")));
}

#[test]
fn excluded_parameters_merge_objects() {
    let policy = policy(
        r#"{"defaultTTL": 1, "cacheKey": {"queryParameters": {"exclude": ["utm_*", "fbclid", "é?"]}}}"#,
    );
    let key = |query: &str| key_of(&policy, &parts(query, ""));
    let without = key_of(&policy, &Parts { query: None, ..parts("", "") });
    assert_eq!(key("utm_source=x&fbclid=1"), without);
    assert_eq!(key("utm%5Fsource=x&UTM_a=1"), key("UTM_a=1"));
    assert_eq!(key("%C3%A9x=1&b"), key("b"));
    assert_ne!(key("xutm_source=x"), without);
    assert_ne!(key(&format!("utm_{}=1", "x".repeat(300))), without);
}

#[test]
fn included_parameters_alone_count() {
    let policy = policy(
        r#"{"defaultTTL": 1, "cacheKey": {"queryParameters": {"include": ["id", "page*"]}}}"#,
    );
    let key = |query: &str| key_of(&policy, &parts(query, ""));
    assert_eq!(key("x=1&id=2&page_size=3"), key("page_size=3&id=2&y"));
    assert_ne!(key("id=2"), key("id=3"));
    let mut forwarded = b"before ".to_vec();
    let query = b"x=1&id=2&&page=3&y";
    policy.key.query.write_forwarded(query, &Steps::of_fetch(), &mut forwarded).unwrap();
    assert_eq!(forwarded, b"before id=2&page=3");
    let nothing =
        self::policy(r#"{"defaultTTL": 1, "cacheKey": {"queryParameters": {"include": []}}}"#);
    let none = Parts { query: None, ..parts("", "") };
    assert_eq!(key_of(&nothing, &parts("a=1", "")), key_of(&nothing, &none));
}

#[test]
fn description_has_what_the_policy_leaves_in_and_no_more() {
    let names = |json: &str, parts: &Parts| -> Vec<String> {
        described(&policy(json), parts).into_iter().map(|(name, _)| name).collect()
    };
    let request = Parts { query: None, host: b"a.example:8080".to_vec(), ..parts("", "") };
    let least = r#"{"defaultTTL": 1, "cacheKey": {"listener": false, "scheme": false}}"#;
    assert_eq!(names(least, &request), ["rule", "host", "port", "path"]);
    let request = parts("", "");
    let most = r#"{"defaultTTL": 1, "cacheKey": {"headers": ["X"], "cookies": ["a"]}}"#;
    assert_eq!(
        names(most, &request),
        ["rule", "listener", "scheme", "host", "path", "query", "header x", "cookie a"]
    );
    let excluding =
        policy(r#"{"defaultTTL": 1, "cacheKey": {"queryParameters": {"exclude": ["utm_*"]}}}"#);
    let query = |query: &str| {
        let parts = described(&excluding, &parts(query, ""));
        parts.into_iter().find(|(name, _)| name == "query").map(|(_, value)| value)
    };
    assert_eq!(query("z=1&utm_x=2&a=3").as_deref(), Some("a=3&z=1"));
    assert_eq!(query("utm_x=2"), None);
    assert_eq!(query("").as_deref(), Some(""));
}

#[test]
fn scheme_and_listener_count_unless_the_policy_says_otherwise() {
    let strict = policy(r#"{"defaultTTL": 1}"#);
    let shared = policy(r#"{"defaultTTL": 1, "cacheKey": {"scheme": false, "listener": false}}"#);
    let plain = parts("", "");
    let secure = Parts { https: true, listener: "tls".into(), ..plain.clone() };
    assert_ne!(key_of(&strict, &plain), key_of(&strict, &secure));
    assert_eq!(key_of(&shared, &plain), key_of(&shared, &secure));
    let other_rule = Parts { rule: "ns/r/1".into(), ..plain.clone() };
    assert_ne!(key_of(&shared, &plain), key_of(&shared, &other_rule));
}

#[test]
fn cookies_count_by_name() {
    let policy = policy(r#"{"defaultTTL": 1, "cacheKey": {"cookies": ["theme"]}}"#);
    let key = |cookie: &str| key_of(&policy, &parts("", cookie));
    assert_eq!(key("id=1; theme=dark"), key("theme=dark;id=2"));
    assert_eq!(key("id=1"), key("mytheme=dark"));
    assert_ne!(key("theme=dark"), key("theme=light"));
    assert_ne!(key("theme="), key("id=1"));
    assert_ne!(key("theme=a; theme=b"), key("theme=b; theme=a"));
}

#[test]
fn policies_with_other_names_have_other_keys() {
    let by = |name: &str| {
        policy(&format!(r#"{{"defaultTTL": 1, "cacheKey": {{"headers": ["{name}"]}}}}"#))
    };
    let mut request = parts("", "");
    request.headers = vec![("a".into(), b"1".to_vec()), ("b".into(), b"1".to_vec())];
    assert_ne!(key_of(&by("a"), &request), key_of(&by("b"), &request));
}

#[test]
fn order_counts_where_origins_may_take_two_names_for_one() {
    let policy = policy(r#"{"defaultTTL": 1}"#);
    let key = |query: &str| key_of(&policy, &parts(query, ""));
    for (one, other) in
        [("a=1", "a[b]=2"), ("a.b=1", "a_b=2"), ("a%20b=1", "a+b=2"), ("A=1", "a=2")]
    {
        assert_ne!(key(&format!("{one}&{other}")), key(&format!("{other}&{one}")), "{one} {other}");
    }
    assert_eq!(key("a=1&b=2"), key("b=2&a=1"));
}
