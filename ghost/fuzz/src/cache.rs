//! Fields that the cache reads, and what it makes of them.

use std::sync::OnceLock;

use ghost_core::cache::directives::{effective, withheld_fields};
use ghost_core::cache::key::{self, KeyRequest};
use ghost_core::cache::purge::methods::{Asked, Method, TAG_FIELDS};
use ghost_core::cache::purge::Named;
use ghost_core::cache::record::Record;
use ghost_core::cache::status::CacheStatus;
use ghost_core::cache::syntax::list::members;
use ghost_core::cache::syntax::structured::{dictionary, strings, Item};
use ghost_core::cache::syntax::{date, is_token};
use ghost_core::cache::tags::{self, Limits};
use ghost_core::cache::{vary, Headers, Policy, RequestDirectives, ResponseDirectives};
use ghost_core::wire::{self, TagHeader};
use ghost_core::Steps;

/// A message in which each field asked for has these lines, or only one field.
struct Message<'a> {
    only: Option<&'a str>,
    lines: &'a [&'a [u8]],
}

impl Headers for Message<'_> {
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let has = self.only.is_none_or(|only| only.eq_ignore_ascii_case(name));
        self.lines.iter().copied().filter(move |_| has)
    }
}

/// The first byte chooses what the rest is: lines of a field, a date, a record or queries.
pub fn cache(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else { return };
    let lines: Vec<&[u8]> = rest.split(|&byte| byte == b'\n').collect();
    match choice {
        b'c' => cache_control(&lines),
        b'd' => dates(rest),
        b'i' => invalidation(&lines),
        b'k' => queries(lines[0], lines.get(1).copied()),
        b'r' => record(rest),
        b's' => structured(rest),
        b't' => all_tags(&lines),
        b'v' => varies(&lines),
        _ => lines.iter().for_each(|line| list(line)),
    }
}

fn list(line: &[u8]) {
    let all: Vec<_> = members(line).collect();
    assert!(all.iter().all(|one| !one.text.is_empty() && one.text.trim_ascii() == one.text));
    let open = all.iter().position(|one| one.malformed).unwrap_or(all.len());
    let rest = &all[open..];
    assert!(rest.iter().all(|one| one.malformed == one.text.contains(&b'"')), "it stays open");
    assert!(all.iter().all(|one| one.malformed || has_closed_quotes(one.text)));
    let texts: Vec<_> = all.iter().map(|one| one.text).collect();
    if all.iter().all(|one| !one.malformed) {
        let again = texts.join(&b", "[..]);
        assert!(members(&again).map(|one| one.text).eq(texts), "a list stays what it is");
    }
}

fn has_closed_quotes(text: &[u8]) -> bool {
    let (mut open, mut bytes) = (false, text.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => open = !open,
            b'\\' if open => drop(bytes.next()),
            _ => {}
        }
    }
    !open
}

/// Lines mean the same as one line of them all, unless a quote is open; and no quote hides a
/// directive of a line that has none.
fn cache_control(lines: &[&[u8]]) {
    let joined = lines.join(&b", "[..]);
    let one = [&*joined];
    let only = Some("cache-control");
    let (several, single) = (Message { only, lines }, Message { only, lines: &one });
    let (response, request) =
        (ResponseDirectives::of(&several), RequestDirectives::parse(&several));
    if lines.iter().all(|line| members(line).all(|member| !member.malformed)) {
        assert_eq!(response, ResponseDirectives::of(&single));
        assert_eq!(request, RequestDirectives::parse(&single));
    }
    let plain = lines.iter().filter(|line| !line.contains(&b'"'));
    let forbids = |member: &[u8]| member.trim_ascii().eq_ignore_ascii_case(b"no-store");
    if plain.flat_map(|line| line.split(|&byte| byte == b',')).any(forbids) {
        assert!(response.no_store && request.no_store);
        assert!(effective(&several).0.no_store);
    }
    assert!(withheld_fields(&several).all(is_token));
    let _ = effective(&Message { only: None, lines });
    let _ = effective(&Message { only: Some("cdn-cache-control"), lines });
    let _ = effective(&Message { only: Some("surrogate-control"), lines });
}

/// What was read can be written, and read again as the same.
fn structured(line: &[u8]) {
    let mut texts = Vec::new();
    if strings(line, |text| texts.push(text)).is_ok() {
        let quoted: Vec<_> = texts.iter().map(|text| [b"\"", *text, b"\""].concat()).collect();
        let mut again = Vec::new();
        assert!(strings(&quoted.join(&b", "[..]), |text| again.push(text.to_vec())).is_ok());
        assert_eq!(again, texts);
    }
    let mut items = Vec::new();
    if dictionary(line, |key, item| items.push((key, item))).is_ok() {
        items.retain(|(_, item)| *item != Item::Other);
        let written: Vec<_> = items.iter().map(|(key, item)| member(key, *item)).collect();
        let mut count = 0;
        let written = written.join(&b", "[..]);
        let read = dictionary(&written, |key, item| {
            assert_eq!((key, item), items[count]);
            count += 1;
        });
        assert!(read.is_ok() && count == items.len());
    }
}

fn member(key: &[u8], item: Item<'_>) -> Vec<u8> {
    let value = match item {
        Item::Integer(number) => number.to_string().into_bytes(),
        Item::Boolean(set) => if set { "?1" } else { "?0" }.into(),
        Item::String(text) => [b"\"", text, b"\""].concat(),
        Item::Token(text) => text.to_vec(),
        Item::Other => unreachable!("it was left out"),
    };
    [key, b"=", &*value].concat()
}

/// From the year 0 to 9999; spaces around a date are no part of it.
fn dates(text: &[u8]) {
    for now in [0, 1_800_000_000, 253_402_300_799] {
        let seconds = date::parse(text, now);
        assert!(seconds.is_none_or(|it| (-62_167_219_200..=253_402_300_800).contains(&it)));
        assert_eq!(seconds, date::parse(&[b" ", text, b"\t"].concat(), now));
    }
}

fn varies(lines: &[&[u8]]) {
    let response = Message { only: Some("vary"), lines };
    let names = vary::fields(&response).count();
    assert!(vary::check(&response).is_err() || names <= vary::MAX_FIELDS);
    let _ = vary::is_repeated(&Message { only: None, lines }, &response);
    let (one, other) = (Some(lines[0]), lines.get(1).copied());
    for name in ["Accept-Language", "accept", "X-Any"] {
        assert!(vary::same_meaning(name, one, one));
        let same = vary::same_meaning(name, one, other);
        assert_eq!(same, vary::same_meaning(name, other, one));
    }
    let _ = vary::prefers_language(lines[0], other.unwrap_or_default());
}

/// Whatever a response has, its tags stay within the limits.
fn all_tags(lines: &[&[u8]]) {
    let headers =
        [TagHeader::SurrogateKey, TagHeader::CacheTags, TagHeader::Xkey, TagHeader::CacheGroups];
    let response = Message { only: None, lines };
    let mut limits = Limits::default();
    let (mut count, mut bytes) = (0, 0);
    for header in headers {
        let read = limits.read(header, &response, |tag| {
            assert!(tag.len() <= tags::MAX_TAG);
            count += 1;
            bytes += tag.len();
        });
        if read.is_err() {
            break;
        }
    }
    assert!(count <= tags::MAX_TAGS && bytes <= tags::MAX_BYTES);
}

/// Whatever a request names, it reaches its own namespace only, and what it names isn't empty.
fn invalidation(lines: &[&[u8]]) {
    for method in [Method::Purge, Method::Ban, Method::PurgeKeys] {
        for only in TAG_FIELDS.into_iter().chain(["x-host", "x-url", "x-purge-method"]) {
            let target = lines.last().copied().unwrap_or(b"/");
            let asked = Asked { method, host: b"a.example", target, namespace: "shop" };
            let headers = [(only, lines[0])];
            let Ok(purge) = asked.read(&headers) else { continue };
            let owners = purge.owners.unwrap_or_default();
            assert!(owners.namespaces == ["shop"] && owners.routes.is_empty());
            assert!(!purge.targets.is_empty());
            for named in purge.targets {
                match named {
                    Named::Tags(tags) => assert!(tags.iter().all(|tag| !tag.is_empty())),
                    Named::Host(host) => assert!(!host.is_empty()),
                    _ => {}
                }
            }
        }
    }
}

/// A record is read as it was written; Cache-Status is a structured field whatever is in it.
fn record(text: &[u8]) {
    if let Some(record) = Record::parse(text) {
        let mut written = Vec::new();
        record.write(&mut written);
        assert_eq!(Record::parse(&written), Some(record));
    }
    let mut value = Vec::new();
    CacheStatus { key: Some(text), detail: Some(text), ..CacheStatus::hit() }
        .write("varnish-gateway", &mut value);
    let mut caches = 0;
    assert!(dictionary(&value, |_, _| caches += 1).is_ok() && caches == 1);
}

/// A key has the parameters that the origin gets: all of them, and no others.
fn queries(one: &[u8], other: Option<&[u8]>) {
    for policy in policies() {
        let (forwarded, key) = (forwarded(policy, one), key_of(policy, Some(one)));
        assert_eq!(self::forwarded(policy, &forwarded), forwarded);
        let left_out_all = forwarded.is_empty() && one.iter().any(|&byte| byte != b'&');
        assert_eq!(key_of(policy, (!left_out_all).then_some(&forwarded)), key);
        let Some(other) = other.filter(|other| key_of(policy, Some(other)) == key) else {
            continue;
        };
        assert_eq!(pairs(&forwarded), pairs(&self::forwarded(policy, other)));
    }
}

fn pairs(query: &[u8]) -> Vec<&[u8]> {
    let pairs = query.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<_> = pairs.collect();
    pairs.sort_unstable();
    pairs
}

fn forwarded(policy: &Policy, query: &[u8]) -> Vec<u8> {
    let mut to = Vec::new();
    assert!(policy.key.query.write_forwarded(query, &Steps::unlimited(), &mut to).is_ok());
    to
}

fn key_of(policy: &Policy, query: Option<&[u8]>) -> Vec<u8> {
    let headers = &Message { only: None, lines: &[] };
    let (host, path) = (&b"a.example"[..], &b"/"[..]);
    let (rule, listener, https, port) = ("shop/r", "http", false, None);
    let request = KeyRequest { rule, listener, https, host, port, path, query, headers };
    let mut to = Vec::new();
    assert!(key::write(&policy.key, &request, &Steps::unlimited(), &mut to).is_ok());
    to
}

fn policies() -> &'static [Policy] {
    static POLICIES: OnceLock<Vec<Policy>> = OnceLock::new();
    POLICIES.get_or_init(|| {
        let chosen = ["", r#""include": ["a", "*_id"]"#, r#""exclude": ["utm_*", "*x*"]"#];
        let compile = |parameters: &str| {
            let source = format!(
                r#"{{"defaultTTL": 1000, "cacheKey": {{"queryParameters": {{{parameters}}}}}}}"#
            );
            Policy::compile(&wire::decode::<wire::CachePolicy>(source.as_bytes()).ok()?).ok()
        };
        let compiled: Option<_> = chosen.into_iter().map(compile).collect();
        compiled.expect("the policies are valid")
    })
}
