//! Nothing that a client or an origin sends makes the cache panic.

use std::sync::LazyLock;

use ghost_core::cache::directives::{effective, withheld_fields};
use ghost_core::cache::invalidation::{targets, Base};
use ghost_core::cache::key::{self, KeyRequest};
use ghost_core::cache::lookup::{self, Advice, Budget, Candidate};
use ghost_core::cache::tags::Limits;
use ghost_core::cache::{
    conditional, poisoning, store, vary, Exchange, Outcome, Policy, RequestDirectives, Response,
    StoreRequest, Timestamp,
};
use ghost_core::wire::TagHeader;
use ghost_core::Steps;
use proptest::prelude::*;

use super::support::{policy, survey, Lines};
use crate::support::cases;

const NAMES: [&str; 26] = [
    "Cache-Control",
    "CDN-Cache-Control",
    "Surrogate-Control",
    "Pragma",
    "Age",
    "Date",
    "Expires",
    "Last-Modified",
    "ETag",
    "Vary",
    "Set-Cookie",
    "Cookie",
    "Authorization",
    "Content-Length",
    "Content-Language",
    "If-None-Match",
    "If-Modified-Since",
    "If-Range",
    "Location",
    "Content-Location",
    "Surrogate-Key",
    "Cache-Tag",
    "Cache-Groups",
    "xkey",
    "Accept",
    "X",
];

/// Pieces of real fields, in any order and broken anywhere.
const PIECES: [&str; 40] = [
    "max-age",
    "s-maxage",
    "no-store",
    "private",
    "no-cache",
    "=",
    "=60",
    "\"",
    "\\",
    ",",
    ";",
    " ",
    "W/\"a\"",
    "*",
    "99999999999999999999",
    "-1",
    "1.5",
    "?0",
    "?1",
    "(",
    ")",
    ":",
    "@",
    "%",
    "%2e",
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "Sunday, 06-Nov-94",
    "Sun Nov  6",
    "//",
    "http://a.example",
    "?",
    "#",
    "[::1]",
    "..",
    "é",
    "\u{0}",
    "q=0.5",
    "utm_x",
    "&",
    "must-understand",
];

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..8)
            .prop_map(|pieces| pieces.concat().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

fn headers() -> impl Strategy<Value = Lines> {
    let line = (prop::sample::select(NAMES.to_vec()), value());
    prop::collection::vec(line.prop_map(|(name, value)| (name.to_owned(), value)), 0..8)
}

fn time() -> impl Strategy<Value = Timestamp> {
    prop_oneof![any::<i64>(), 0_i64..2_000_000_000_000].prop_map(Timestamp::from_millis)
}

static POLICIES: LazyLock<[Policy; 3]> = LazyLock::new(|| {
    [
        r#"{"defaultTTL": 18446744073709551615, "jitterPercent": 100, "heuristicPercent": 100,
            "tagHeaders": ["Surrogate-Key", "Cache-Tag", "xkey", "Cache-Groups"], "maxObjectSize": 5,
            "cacheKey": {"headers": ["x"], "cookies": ["a"], "queryParameters": {"exclude": ["utm_*"]}}}"#,
        r#"{"forcedTTL": 0, "grace": 18446744073709551615, "staleIfError": 18446744073709551615, "keep": 18446744073709551615, "setCookie": "remove"}"#,
        r#"{"forcedTTL": 1000, "unsafeIgnoreNoStoreAndPrivate": true, "requestCookies": "ignore",
            "bypass": {"headers": [{"name": "x", "valueRegex": "a+"}], "cookies": ["*"]}, "statusTTLs": [{"status": "5xx", "ttl": 0}]}"#,
    ]
    .map(policy)
});

fn exercise(policy: &Policy, request: &Lines, response: &Lines, status: u16, times: Exchange) {
    let now = times.received;
    let _ = policy.bypass_reason(b"GET", survey(request), request, &Steps::of_request());
    let facts = StoreRequest::new(policy, b"GET", request);
    let head = Response { status, headers: response };
    let asked = RequestDirectives::parse(request);
    if let Outcome::Stored(stored) = store::decide(policy, facts, &head, times, u32::MAX) {
        let object = Candidate::from(&stored);
        let _ = lookup::decide(&Advice { asked, budget: Budget::Available }, Some(&object), now);
        let _ = lookup::on_error(&object, true, now.plus(stored.keep), now);
        let _ = lookup::on_unstored(&object, status, now.plus(stored.keep), now);
        let restricted = effective(response).0;
        let permitted = policy.ignores_no_store_and_private;
        assert!(permitted || !restricted.no_store || restricted.must_understand);
    }
    let _ = withheld_fields(response).count();
    let _ = conditional::evaluate(request, status, response, now);
    let _ = conditional::allows_range(request, response);
    let _ = (conditional::freshens(response, request), conditional::outdates(response, request));
    for (name, value) in request {
        let _ = vary::same_meaning(
            "accept",
            Some(value),
            response.first().map(|(_, value)| &value[..]),
        );
        let _ = vary::prefers_language(value, name.as_bytes());
        let _ = poisoning::treatment(policy, value);
        let base = Base { https: true, host: value, port: 443, target: value };
        let _ = targets(b"POST", &base, status, response).count();
        let parts = KeyRequest {
            rule: name,
            listener: name,
            https: true,
            host: value,
            port: key::port(value, false),
            path: value,
            query: Some(value),
            headers: request,
        };
        let _ = key::write(&policy.key, &parts, &Steps::of_request(), &mut Vec::new());
        let _ = policy.key.query.write_forwarded(value, &Steps::of_fetch(), &mut Vec::new());
    }
    for header in
        [TagHeader::SurrogateKey, TagHeader::CacheTag, TagHeader::Xkey, TagHeader::CacheGroups]
    {
        let _ = Limits::default().read(header, response, |_| {});
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn no_message_makes_the_cache_panic(
        request in headers(), response in headers(), status in any::<u16>(), requested in time(), received in time()
    ) {
        for policy in &*POLICIES {
            exercise(policy, &request, &response, status, Exchange { requested, received });
        }
    }
}
