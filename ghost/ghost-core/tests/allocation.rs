//! A lookup does not allocate in the common case, nor do the cache's decisions about a request.
//! The index of cached objects counts what it allocates.
// A test fails by panicking, also in shared functions.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::borrow::Cow;
use std::sync::Arc;

use ghost_core::cache::index::{Entry, Index, Invalidation, Mode, Moment, Scope, Target};
use ghost_core::cache::{key, KeyRequest, Policy, RequestDirectives, Survey};
use ghost_core::{target, wire, Host, Request, Route, Router, Steps};

/// A request that borrows from what a client sent.
struct Borrowed<'a> {
    host: Host,
    path: &'a [u8],
    query: Option<&'a [u8]>,
}

impl Request for Borrowed<'_> {
    fn socket(&self) -> &'static str {
        "http-80"
    }

    fn host(&self) -> &[u8] {
        &self.host
    }

    fn method(&self) -> &[u8] {
        b"GET"
    }

    fn path(&self) -> &[u8] {
        self.path
    }

    fn query(&self) -> Option<&[u8]> {
        self.query
    }

    fn header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        (name == "x").then_some(Cow::Borrowed(b"1"))
    }
}

fn router() -> Router<u32> {
    let json = r#"{"version": 2, "listeners": [{"name": "web", "socket": "http-80"}], "routes": [
        {"namespace": "n", "name": "r", "attachments": [{"listener": "web", "hostnames": ["*.example.com"]}],
         "rules": [{"matches": [
            {"path": {"type": "exact", "value": "/a/b"}, "query": [{"name": "q", "value": "1"}]},
            {"path": {"type": "prefix", "value": "/a"}, "headers": [{"name": "x", "value": "1"}], "method": "GET"},
            {"path": {"type": "regex", "value": "/r/[0-9]+"}},
            {"path": {"type": "regex", "value": "/[0-9]+"}}]}]}]}"#;
    let routing: wire::Routing = wire::decode(json.as_bytes()).unwrap();
    let mut router = Router::new();
    router.set_listeners(&routing.listeners);
    for route in &routing.routes {
        router.insert_route(&Arc::new(Route::compile(route).unwrap()), |_| 0);
    }
    router
}

fn find(router: &Router<u32>, host: &[u8], url: &[u8]) -> Option<usize> {
    let url = target::normalise(url, b"GET").ok()?;
    let (path, query) = target::split(&url);
    let request = Borrowed { host: Host::parse(host).ok()?, path, query };
    router.find(&request).ok()?.map(|found| found.match_index)
}

#[test]
fn lookup_does_not_allocate() {
    let router = router();
    let cases: [(&[u8], Option<usize>); 5] = [
        (b"/a/b?p=1&q=1", Some(0)),
        (b"/a/b?q=2", Some(1)),
        (b"/a/c", Some(1)),
        (b"/r/12", Some(2)),
        (b"/x", None),
    ];
    for (url, expected) in cases {
        // The first search fills the caches that regular expressions have in each thread.
        assert_eq!(find(&router, b"WWW.Example.com:80", url), expected);
        let allocated = allocation_counter::measure(|| {
            find(&router, b"WWW.Example.com:80", url);
        });
        assert_eq!(allocated.count_total, 0, "{}", url.escape_ascii());
    }
}

#[test]
fn cache_decides_about_a_request_without_allocating() {
    let policy = wire::decode(
        br#"{"defaultTTL": 1000, "bypass": {"headers": [{"name": "x", "valueRegex": "a+"}], "cookies": ["s*"]},
            "cacheKey": {"headers": ["x"], "cookies": ["a"], "queryParameters": {"exclude": ["utm_*"]}}}"#,
    );
    let policy = Policy::compile(&policy.unwrap()).unwrap();
    let headers = [("Cookie", &b"b=1; a=2"[..]), ("X", b"y"), ("Cache-Control", b"max-age=0")];
    let request = KeyRequest {
        rule: "n/r/0",
        listener: "web",
        https: true,
        host: b"a.example",
        port: key::port(b"a.example:8080", true),
        path: b"/x",
        query: Some(b"z=1&utm%5Fx=2&a=3"),
        headers: &headers,
    };
    let mut buffer = Vec::with_capacity(1024);
    let allocated = allocation_counter::measure(|| {
        let steps = Steps::of_request();
        let survey = Survey::of(headers.map(|(name, value)| (name.as_bytes(), value)));
        assert_eq!(policy.bypass_reason(b"GET", survey, &headers, &steps), Ok(None));
        assert!(RequestDirectives::parse(&headers).max_age.is_some());
        assert_eq!(key::write(&policy.key, &request, &steps, &mut buffer), Ok(()));
    });
    assert_eq!(allocated.count_total, 0);
}

fn insert(index: &Index, n: usize) {
    let (target, tag) = (format!("/{}/{}", n % 1000, "x".repeat(n % 40)), format!("t{}", n % 77));
    let (host, rule) = (format!("h{}.example", n % 30), format!("ns/r{}/0", n % 9));
    let entry = Entry {
        rule: &rule,
        route: "ns/r",
        host: host.as_bytes(),
        target: target.as_bytes(),
        tags: &[tag.as_bytes(), b"all"],
        started: Moment::from_nanos(1),
    };
    index.insert(n, &entry).unwrap();
}

#[test]
fn index_of_objects_counts_its_bytes_as_the_allocator_does() {
    let mut kept = None;
    let mut allocated = 0;
    let mut step = |work: &mut dyn FnMut(&mut Option<Index>)| {
        let counted = allocation_counter::measure(|| work(&mut kept));
        allocated += counted.bytes_current;
        let counted = kept.as_ref().map_or(0, |index| index.usage().bytes);
        assert_eq!(i64::try_from(counted).unwrap(), allocated);
        allocated
    };
    let empty = step(&mut |index| *index = Some(Index::new(usize::MAX)));
    let full = step(&mut |index| (0..20_000).for_each(|n| insert(index.as_ref().unwrap(), n)));
    assert!(full > empty + 20_000 * 100);
    let prefix = Target::Prefix { host: b"h1.example", prefix: b"/1" };
    let what = Invalidation {
        target: prefix,
        scope: Scope::Routes(&["ns/r", "ns/s"]),
        mode: Mode::Soft,
        at: Moment::from_nanos(2),
    };
    step(&mut |index| {
        assert!(index.as_ref().unwrap().invalidate(&what, &mut |_: usize| true) > 0);
    });
    step(&mut |index| {
        (0..20_000).filter(|n| n % 3 > 0).for_each(|n| assert!(index.as_ref().unwrap().remove(n)));
    });
    let left = step(&mut |index| {
        (0..20_000).step_by(3).for_each(|n| assert!(index.as_ref().unwrap().remove(n)));
    });
    // One chunk of each kind of cell stays in each shard.
    assert!(left - empty < 16 * 40_000, "{left}, {empty}");
}
