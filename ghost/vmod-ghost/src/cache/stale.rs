//! A stale response in place of an error (RFC 5861, section 4).
//!
//! varnishd has dropped the stale object from its lookup by the time that a fetch fails. Ghost
//! makes it fresh for some seconds, has varnishd abandon the fetch, and restarts the requests
//! that waited for it: they find the object. Its age is what it was. For these seconds the
//! origin is left alone; then the object is in grace for the rest of its window, so that
//! further attempts take place in the background.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use ghost_core::cache::conditional::freshens;
use ghost_core::cache::lookup::{on_error, on_unstored, Candidate, InPlace, Validated};
use ghost_core::cache::record::Record;
use ghost_core::cache::store::SHORT_HIT_FOR_MISS;
use ghost_core::cache::Policy;
use ghost_core::Steps;
use ghost_sync::Notes;

use super::key;
use super::task::CacheTask;
use crate::failure::Failure;
use crate::fetch::FetchTask;
use crate::request::{ClientTask, Synthetic};
use crate::varnish::{Client, Fetch, Http, Object, OutOfWorkspace};

/// Tells the fetch which policy it is under, a hash of the key and, if there is one, which request
/// waits for it. It never leaves ghost.
const HEADER: &str = "X-Ghost-Fetch";

/// Three numbers of twenty digits, and spaces between them.
const MOST_TEXT: usize = 3 * 20 + 2;

/// More requests than varnishd has workers can't wait. What is left of requests that were never
/// restarted must not add up.
const MOST_REVIVED: usize = 20_000;

/// The requests whose fetch was abandoned for a stale object, until they are restarted.
static REVIVED: Notes<MOST_REVIVED> = Notes::new();

/// What a fetch is told.
struct Announcement {
    policy: u64,
    key: u64,
    waiting: Option<u64>,
}

/// Write numbers with a space between them. Every hit pays for this, so that nothing is allocated.
fn text_of<'t>(numbers: &[u64], to: &'t mut [u8; MOST_TEXT]) -> &'t [u8] {
    let mut at = to.len();
    for (place, &number) in numbers.iter().enumerate().rev() {
        let mut rest = number;
        loop {
            at -= 1;
            // below ten, so it fits
            #[allow(clippy::cast_possible_truncation)]
            let digit = (rest % 10) as u8;
            to[at] = b'0' + digit;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if place > 0 {
            at -= 1;
            to[at] = b' ';
        }
    }
    &to[at..]
}

/// Let the fetch that may follow know the key, and the policy that it is made by.
pub fn announce(http: &mut Http<'_>, policy: &Policy, key: u64) -> Result<(), OutOfWorkspace> {
    http.set(HEADER, text_of(&[policy.identity, key], &mut [0; MOST_TEXT]))
}

/// Let the fetch that follows know the request, which may get a stale object in its place.
pub fn expect(
    client: &Client<'_>,
    policy: &Policy,
    task: &mut CacheTask,
) -> Result<(), OutOfWorkspace> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Relaxed);
    task.waits = Some(number);
    let Some(mut http) = client.req() else { return Ok(()) };
    http.set(HEADER, text_of(&[policy.identity, task.hash, number], &mut [0; MOST_TEXT]))
}

/// The request that waits for a fetch. The backend does not see the header.
pub fn claim_waiting(bereq: &mut Http<'_>) -> Option<u64> {
    let number = bereq.header(HEADER.as_bytes()).and_then(|value| read(value)?.waiting);
    conceal(bereq);
    number
}

/// Remove what a backend must not see: a rollback brings it back.
pub fn conceal(bereq: &mut Http<'_>) {
    bereq.remove(HEADER.as_bytes());
}

/// The identity of the policy that the key is made by. No VCL of the fetch changes it.
pub fn announced(fetch: &Fetch<'_>) -> Option<u64> {
    Some(announcement(fetch)?.policy)
}

/// The hash of the key. None if nothing was looked up under a policy.
pub fn announced_key(fetch: &Fetch<'_>) -> Option<u64> {
    Some(announcement(fetch)?.key)
}

fn announcement(fetch: &Fetch<'_>) -> Option<Announcement> {
    read(fetch.original()?.header(HEADER.as_bytes())?)
}

fn read(value: &[u8]) -> Option<Announcement> {
    let numbers = std::str::from_utf8(value).ok()?.split(' ');
    let mut numbers = numbers.map(|number| number.parse().ok());
    Some(Announcement {
        policy: numbers.next()??,
        key: numbers.next()??,
        waiting: numbers.next().flatten(),
    })
}

/// In place of an error in a fetch; true if the fetch is to be abandoned.
pub fn serve_stale(fetch: &Fetch<'_>) -> bool {
    let memory = fetch.recall::<FetchTask>();
    // Ghost itself made the error where it rejected the request of a client: no rule's fetch has
    // been prepared then.
    let rejected = || fetch.is_served_by::<Synthetic>();
    memory.is_some_and(|memory| memory.get().prepared.is_some() || rejected()) && revive(fetch)
}

/// Make the stale object usable again, if its windows allow it.
pub fn revive(fetch: &Fetch<'_>) -> bool {
    let waiting = fetch.recall::<FetchTask>().and_then(|memory| memory.get().waiting);
    if waiting.is_none() && !fetch.is_background() {
        return false;
    }
    let Some((object, candidate)) = validated(fetch) else { return false };
    let (kept_until, now) = (object.times().gone_at(), fetch.now());
    match on_error(&candidate, fetch.is_background(), kept_until, now) {
        None => return false,
        Some(InPlace::Fresh) => {}
        Some(InPlace::Stale { hold, grace, keep }) => {
            object.rearm(now, hold, grace, keep);
            let prepared = fetch.recall::<FetchTask>().and_then(|memory| {
                let task = memory.get();
                task.prepared.as_ref().map(|prepared| prepared.requester)
            });
            if let Some(requester) = prepared {
                requester.note(&object, now);
            }
            fetch.log(b"ghost-store:stale-if-error");
        }
    }
    note(waiting);
    true
}

/// Keep the object that a response was to replace, if it is of use to others and the response
/// isn't stored. Then, the time is returned for which requests don't wait for each other.
pub fn keep(fetch: &mut Fetch<'_>, status: u16, hit_for_miss: Duration) -> Option<Duration> {
    // The body of what a 304 confirms is copied from that object.
    if fetch.was_not_modified() {
        return None;
    }
    let memory = fetch.recall::<FetchTask>()?;
    if let Some(marker) = memory.get().kept {
        return Some(marker);
    }
    let (object, candidate) = validated(fetch)?;
    let found = on_unstored(&candidate, status, object.times().gone_at(), fetch.now());
    let marker = match found {
        Validated::Superseded => return None,
        Validated::Kept => Duration::ZERO,
        Validated::KeptForErrors => hit_for_miss.min(SHORT_HIT_FOR_MISS),
    };
    memory.get_mut().kept = Some(marker);
    fetch.keep_stale_object();
    // User VCL may retry: a 304 would confirm an object that the fetch no longer has.
    if let Some(mut bereq) = fetch.bereq() {
        bereq.remove(b"if-none-match");
        bereq.remove(b"if-modified-since");
    }
    Some(marker)
}

/// The object that the fetch validates, if ghost decided about it.
fn validated<'f>(fetch: &'f Fetch<'_>) -> Option<(Object<'f>, Candidate)> {
    let object = fetch.stale_object().filter(|object| !object.is_marker())?;
    let record = object.record().and_then(Record::parse)?;
    record.lifetime?;
    let times = object.times();
    let candidate = record.candidate(times.origin, times.lifetime, times.grace);
    let status = object.status();
    Some((object, Candidate { status, ..candidate }))
}

/// A 304 that speaks of another response updates nothing (RFC 9111, section 4.3.4). The stored
/// one goes, and the requests that wait ask again, without a condition. varnishd has completed
/// the 304 with the fields of the stored response: a validator that it lacked is equal.
pub fn discard_unconfirmed(fetch: &Fetch<'_>) -> bool {
    let Some(object) = fetch.stale_object() else { return false };
    let Some(beresp) = fetch.beresp() else { return false };
    let validators = [("etag", object.etag()), ("last-modified", object.last_modified())];
    let stored =
        validators.map(|(name, value)| value.map_or(("", &b""[..]), |value| (name, value)));
    let waiting = fetch.recall::<FetchTask>().and_then(|memory| memory.get().waiting);
    let can_ask_again = waiting.is_some() || fetch.is_background();
    if freshens(&beresp, &stored) || !can_ask_again {
        return false;
    }
    object.discard();
    note(waiting);
    fetch.log(b"ghost-store:other-validator");
    true
}

/// Whether a request failed because its fetch was abandoned for a stale object, or for one that
/// was discarded. It is to be restarted then; once, for the object may be gone.
pub fn is_revived(client: &Client<'_>) -> Result<bool, Failure> {
    let Some(memory) = client.recall::<ClientTask>() else { return Ok(false) };
    if !client.has_failed_fetch() || key::of(client, memory, &memory.get()).is_none() {
        return Ok(false);
    }
    let cache = client.remember::<CacheTask>().ok_or(Failure::OutOfWorkspace)?;
    let mut cache = cache.get_mut();
    let noted = cache.waits.take().is_some_and(|number| REVIVED.take(number));
    let restarts = noted && !cache.revived;
    cache.revived |= noted;
    if restarts {
        // The client didn't cause it, and the same question has been within the budget.
        memory.get_mut().steps = Steps::of_request();
    }
    Ok(restarts)
}

fn note(waiting: Option<u64>) {
    if let Some(number) = waiting {
        REVIVED.leave(number);
    }
}
