//! What is stored for a URI, which the data plane asks for on the reload socket.
//!
//! In:  the invalidation of that URI, with its restrictions: who may invalidate an object may see it.
//! Out: the objects that it would hit, as JSON; nothing happens to them. Durations are milliseconds.
//!
//! The number of objects, their tags and the time are bounded. Objects are read in the batches of an
//! invalidation, each under a lock that no lookup takes.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use ghost_core::cache::index::{Scope, Target};
use ghost_core::cache::purge::Named;
use ghost_core::cache::record::Record;
use ghost_core::cache::requested::Requested;
use ghost_core::cache::{Headers, Timestamp};
use ghost_core::target::PathRules;
use serde_json::{json, Value};

use super::index;
use super::purge::{error, on_read, page};
use crate::varnish::{self, Fetch, Object, Response};

/// The most objects that are told; whether there are more is told, too.
const MOST: usize = 64;
/// The most tags of an object, and of all of them together the most bytes: others are counted.
const MOST_TAGS: usize = 64;
const MOST_TAG_BYTES: usize = 64 << 10;
/// For how long objects are looked for. A policy may have a million for one URI, most of them out
/// of reach.
const WORK: Duration = Duration::from_secs(2);

/// Respond with what is stored for the URI that the body of a request names.
pub fn respond(fetch: &Fetch<'_>, paths: &PathRules) -> Response {
    let purge = match on_read(fetch, paths, |purge| purge) {
        Ok(purge) => purge,
        Err(response) => return response,
    };
    let [Named::Uri { host, target }] = &purge.targets[..] else {
        return error(400, "targets: name one URI");
    };
    let found = purge.with_scope(|scope| find(fetch, &scope, host, target));
    page(200, &json!({ "variants": found.variants, "more": found.is_cut_off }))
}

struct Found {
    variants: Vec<Value>,
    is_cut_off: bool,
    tag_bytes: usize,
}

fn find(fetch: &Fetch<'_>, scope: &Scope<'_>, host: &[u8], target: &[u8]) -> Found {
    let begun = Instant::now();
    let mut found = Found { variants: Vec::new(), is_cut_off: false, tag_bytes: 0 };
    for form in varnish::forms(host, target, scope) {
        let room = MOST.saturating_sub(found.variants.len()) as u64;
        let goes_on = |seen: u64| seen <= room && begun.elapsed() < WORK;
        let target = Target::Uri { host, target: &form };
        fetch.look(
            &target,
            scope,
            &mut |object: &Object<'_>| found.add(object, fetch.now()),
            goes_on,
        );
        if begun.elapsed() >= WORK {
            found.is_cut_off = true;
        }
        if found.is_cut_off {
            break;
        }
    }
    found
}

impl Found {
    /// The index is locked meanwhile. Out: whether the object counts.
    fn add(&mut self, object: &Object<'_>, now: Timestamp) -> bool {
        if self.variants.len() == MOST {
            self.is_cut_off = true;
            return true;
        }
        let mut headers = Vec::new();
        let requested = object.requested().and_then(|text| Requested::parse(text, &mut headers));
        let Some(requested) = requested else { return false };
        let variant = self.describe(object, &requested, now);
        self.variants.push(variant);
        true
    }

    fn describe(
        &mut self,
        object: &Object<'_>,
        requested: &Requested<'_>,
        now: Timestamp,
    ) -> Value {
        let record = object.record().and_then(Record::parse).unwrap_or_default();
        let times = object.times();
        let stale_at = times.stale_at();
        let original = record.lifetime.unwrap_or(times.lifetime);
        // What follows an error makes an object usable for longer than it is fresh.
        let fresh_until = stale_at.min(times.origin.plus(original));
        let is_fresh = now < fresh_until && !record.always_revalidate;
        let (tags, more_tags) = self.tags(object, requested);
        let vary = object.values("vary").map(String::from_utf8_lossy).collect::<Vec<_>>();
        json!({
            "rule": requested.rule,
            "policy": requested.policy,
            "status": object.status(),
            "fresh": is_fresh,
            "age": millis(now.since(times.origin)),
            "lifetime": millis(original),
            "ttl": fresh_until.millis().saturating_sub(now.millis()),
            "grace": left(stale_at.plus(times.grace), now),
            "staleIfError": left(times.origin.plus(original).plus(record.stale_if_error), now),
            "kept": left(times.gone_at(), now),
            "mustRevalidate": record.must_revalidate,
            "alwaysRevalidate": record.always_revalidate,
            "hits": object.hits(),
            "size": object.size(),
            "vary": vary.join(", "),
            "tags": tags,
            "moreTags": more_tags,
            "reason": String::from_utf8_lossy(record.word),
        })
    }

    /// Tags as an invalidation names them, and how many are left out.
    fn tags(&mut self, object: &Object<'_>, requested: &Requested<'_>) -> (Vec<String>, usize) {
        // An object with too many tags is not stored.
        let all = index::tags(requested.tag_headers, object).unwrap_or_default();
        let shown = all.iter().take(MOST_TAGS).take_while(|tag| {
            self.tag_bytes += tag.len();
            self.tag_bytes <= MOST_TAG_BYTES
        });
        let shown: Vec<String> = shown.map(|tag| percent_encoded(tag)).collect();
        let more = all.len() - shown.len();
        (shown, more)
    }
}

/// As an invalidation names a tag: UTF-8, with `%` and two hexadecimal digits for any other byte.
fn percent_encoded(tag: &[u8]) -> String {
    let mut text = String::new();
    for chunk in tag.utf8_chunks() {
        text.push_str(&chunk.valid().replace('%', "%25"));
        for byte in chunk.invalid() {
            // Writing to a string never fails.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

fn left(end: Timestamp, now: Timestamp) -> u64 {
    millis(end.since(now))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
