//! What a client gets of a response under a policy, and learns about it.

use std::cell::RefCell;

use ghost_core::cache::conditional::{asks_for_part, evaluate, Answer};
use ghost_core::cache::lookup::HitReason;
use ghost_core::cache::record::Record;
use ghost_core::cache::status::{CacheStatus, Forward};
use ghost_core::cache::{tags, Policy, Timestamp};
use ghost_core::forwarding::{members, TrustedProxies};
use ghost_core::wire::CacheStatus as Audience;

use super::headers::{RECORD, REQUESTED};
use super::policy::Cached;
use super::task::{CacheTask, Stage};
use crate::config::CacheResult;
use crate::failure::Failure;
use crate::varnish::{value_of, Client, Http, Object};

/// Names this cache in Cache-Status.
const CACHE: &str = "varnish-gateway";

thread_local! {
    static BUFFERS: RefCell<(Vec<u8>, Vec<u8>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// What the cache did with a request, for the client, the log and the counters.
struct Outcome<'a> {
    status: CacheStatus<'a>,
    word: &'a [u8],
    result: CacheResult,
}

/// Remove what clients don't see, answer conditions, and say what the cache did.
pub fn deliver(
    client: &Client<'_>,
    cached: &Cached,
    proxies: &TrustedProxies,
    resp: &mut Http<'_>,
) -> Result<CacheResult, Failure> {
    let memory = client.remember::<CacheTask>().ok_or(Failure::OutOfWorkspace)?;
    let task = memory.get();
    let policy = &cached.policy;
    let text = resp.header(RECORD.as_bytes());
    let record = text.and_then(Record::parse).unwrap_or_default();
    resp.retain(|line| !is_own(line) && !is_tag(policy, line));
    let outcome = outcome(client, &task, &record, resp.status());
    let mut req = client.req().ok_or(Failure::WrongSubroutine)?;
    answer_condition(client, &req, resp);
    // varnishd answers each Range that it finds, also with 416 where it can't read one.
    if req.header(b"range").is_some() && !asks_for_part(req.method(), &req, &*resp) {
        req.remove(b"range");
    }
    let addressed = match policy.cache_status {
        Audience::Off => false,
        Audience::On => true,
        Audience::Trusted => is_trusted(&req, proxies),
    };
    BUFFERS.with_borrow_mut(|(value, detail)| {
        detail.clear();
        detail.extend_from_slice(b"ghost-cache:");
        detail.extend_from_slice(outcome.word);
        client.log(detail);
        if !addressed {
            return Ok(());
        }
        detail.clear();
        detail.extend_from_slice(policy.name.as_bytes());
        detail.push(b' ');
        detail.extend_from_slice(outcome.word);
        if outcome.status.forward.is_some() && !record.word.is_empty() {
            detail.push(b' ');
            detail.extend_from_slice(record.word);
        }
        value.clear();
        let key = task.key.as_deref();
        CacheStatus { detail: Some(&detail[..]), key, ..outcome.status }.write(CACHE, value);
        resp.append(&[b"Cache-Status: ", &value[..]])
    })?;
    Ok(outcome.result)
}

fn is_own(line: &[u8]) -> bool {
    [RECORD, REQUESTED].iter().any(|name| value_of(line, name.as_bytes()).is_some())
}

fn is_tag(policy: &Policy, line: &[u8]) -> bool {
    policy
        .tag_headers
        .iter()
        .any(|&header| value_of(line, tags::field(header).as_bytes()).is_some())
}

/// A list of entity tags, which varnishd doesn't read, or a condition that it reads too.
fn answer_condition(client: &Client<'_>, req: &Http<'_>, resp: &mut Http<'_>) {
    let asks = req.header(b"if-none-match").is_some() || req.header(b"if-modified-since").is_some();
    if !asks || client.is_private() || !client.is_top() {
        return;
    }
    let received = client.object().map_or_else(|| client.now(), |object| object.times().origin);
    if evaluate(req, resp.status(), resp, received) == Answer::NotModified {
        resp.put_status(304);
    }
}

/// The first address that trusted proxies have not removed is the client's.
fn is_trusted(req: &Http<'_>, proxies: &TrustedProxies) -> bool {
    let list = req.header(b"x-forwarded-for").unwrap_or(b"");
    let first = members(list).next();
    first.is_some_and(|address| proxies.includes(address))
}

fn outcome<'a>(
    client: &Client<'_>,
    task: &CacheTask,
    record: &Record<'a>,
    status: u16,
) -> Outcome<'a> {
    if client.is_hit() {
        return hit(client, task, record);
    }
    let (forward, word) = match (task.missed, task.stage) {
        (Some(missed), _) => missed,
        (None, Stage::Pass(pass)) => (pass.forward(), pass.word()),
        (None, Stage::Undecided | Stage::Lookup) => (Forward::Bypass, "vcl"),
    };
    let result = match forward {
        _ if client.is_private() => CacheResult::Pass,
        Forward::Miss => CacheResult::HitForMiss,
        _ => CacheResult::Miss,
    };
    let sent = if record.validated { 304 } else { status };
    let object = client.object();
    let stored = object.as_ref().is_some_and(Object::is_stored);
    let ttl = object.filter(|_| stored).map(|object| {
        let times = object.times();
        seconds_left(times.stale_at(), client.now())
    });
    let status = CacheStatus {
        forward_status: Some(sent),
        ttl,
        stored,
        collapsed: (task.lookups > 1).then_some(false),
        ..CacheStatus::forwarded(forward)
    };
    Outcome { status, word: word.as_bytes(), result }
}

fn hit<'a>(client: &Client<'_>, task: &CacheTask, record: &Record<'a>) -> Outcome<'a> {
    let now = client.now();
    let object = client.object();
    let times = object.map(|object| object.times());
    let stale_at = times.map_or(now, |times| times.stale_at());
    // Ghost makes a stale object fresh for some seconds: its lifetime is what it was before.
    let original = times.zip(record.lifetime).map(|(times, lifetime)| times.origin.plus(lifetime));
    let revived =
        original.filter(|&end| end <= now && stale_at > now && !record.stale_if_error.is_zero());
    let reason = match task.hit {
        Some(HitReason::Fresh) | None if stale_at <= now => HitReason::Grace.name(),
        Some(reason) => reason.name(),
        None => HitReason::Fresh.name(),
    };
    let word = if revived.is_some() { "stale-if-error" } else { reason };
    let ttl = Some(seconds_left(revived.unwrap_or(stale_at), now));
    // A response that the request had to wait for didn't come from the cache (RFC 9211, 2.6).
    let waited = task.waited.filter(|_| task.lookups > 1 && stale_at > now && revived.is_none());
    let status = match waited {
        None => CacheStatus { ttl, ..CacheStatus::hit() },
        Some(forward) => {
            CacheStatus { ttl, collapsed: Some(true), ..CacheStatus::forwarded(forward) }
        }
    };
    let (result, word) = match waited {
        Some(_) => (CacheResult::Coalesced, "collapsed"),
        None if revived.is_some() || stale_at <= now => (CacheResult::Stale, word),
        None => (CacheResult::Hit, word),
    };
    Outcome { status, word: word.as_bytes(), result }
}

fn seconds_left(end: Timestamp, now: Timestamp) -> i64 {
    end.millis().saturating_sub(now.millis()).div_euclid(1000)
}
