//! A lookup does not allocate in the common case.
// A test fails by panicking, also in shared functions.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::borrow::Cow;
use std::sync::Arc;

use ghost_core::{target, wire, Host, Request, Route, Router};

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
