//! Whether the response of a fetch is stored, and for how long.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use ghost_core::cache::conditional::is_of_proxy;
use ghost_core::cache::content::{is_text, may_be_transformed};
use ghost_core::cache::directives::withheld_fields;
use ghost_core::cache::lookup::is_error;
use ghost_core::cache::record::Record;
use ghost_core::cache::store::{self, Outcome, Response, SHORT_HIT_FOR_MISS};
use ghost_core::cache::{NotStored, NotStoredReason, Policy, StoreRequest, Stored};
use ghost_core::Rule;

use super::headers::{RECORD, REQUESTED};
use super::invalidation::{self, Subject};
use super::large::is_too_large;
use super::stale;
use crate::config::{CacheCounters, Instance};
use crate::failure::Failure;
use crate::fetch::FetchTask;
use crate::random;
use crate::request::Synthetic;
use crate::varnish::{Fetch, Http, Times};

/// varnishd keeps lifetimes with the precision of a float.
const ROUNDING: Duration = Duration::from_secs(1);

/// Decide about the response. True if the fetch is to be abandoned: a stale response is delivered
/// in its place, or it validated another response than the stored one.
pub fn store(fetch: &mut Fetch<'_>, instance: &Instance) -> Result<bool, Failure> {
    let snapshot = instance.snapshot();
    let snapshot = snapshot.as_ref().ok_or(Failure::NotLoaded)?;
    invalidation::by_unsafe_request(fetch, &snapshot.requests.paths);
    let Some(cacheable) = cacheable(fetch)? else { return Ok(false) };
    let status = fetch.beresp().ok_or(Failure::WrongSubroutine)?.status();
    if is_error(status) && stale::revive(fetch) {
        return Ok(true);
    }
    if fetch.is_served_by::<Synthetic>() {
        return Ok(false);
    }
    if fetch.was_not_modified() && stale::discard_unconfirmed(fetch) {
        return Ok(true);
    }
    match cacheable.decide(fetch, status)? {
        Outcome::Stored(stored) => cacheable.keep(fetch, &stored)?,
        Outcome::NotStored(not_stored) => cacheable.refuse(fetch, status, not_stored)?,
    }
    Ok(false)
}

/// What a fetch was prepared for, if ghost decides about its response: the policy is that of the
/// key.
fn cacheable(fetch: &mut Fetch<'_>) -> Result<Option<Cacheable>, Failure> {
    let prepared = fetch.recall::<FetchTask>().and_then(|memory| {
        let task = memory.get();
        let (prepared, target) = (task.prepared.as_ref()?, task.target.as_ref()?);
        Some(Cacheable {
            policy: prepared.policy.clone(),
            request: prepared.request,
            subject: prepared.subject.clone(),
            rule: target.rule.clone(),
        })
    });
    let announced = stale::announced(fetch);
    let is_of_key = |of: &Cacheable| announced.is_none_or(|key| key == of.policy.identity);
    match prepared {
        Some(prepared) if is_of_key(&prepared) => Ok(Some(prepared)),
        other => {
            if announced.is_some() && !fetch.is_uncacheable() {
                lose(fetch, other.map(|of| of.policy).as_deref())?;
            }
            Ok(None)
        }
    }
}

/// A response that is stored if its policy, the RFC and the index allow it.
struct Cacheable {
    policy: Arc<Policy>,
    request: StoreRequest,
    subject: Arc<Subject>,
    rule: Arc<Rule>,
}

impl Cacheable {
    fn decide(&self, fetch: &mut Fetch<'_>, status: u16) -> Result<Outcome, Failure> {
        let policy = &self.policy;
        match self.ask_policy(fetch, status)? {
            Outcome::Stored(_) if is_too_large(fetch, policy)? => {
                let (reason, hit_for_miss) = (NotStoredReason::TooLarge, policy.hit_for_miss);
                Ok(Outcome::NotStored(NotStored { reason, hit_for_miss }))
            }
            // A response that the index has no room for isn't stored.
            Outcome::Stored(stored) => match self.subject.check(fetch, policy, &self.rule) {
                Ok(()) => Ok(Outcome::Stored(stored)),
                Err(reason) => Ok(Outcome::NotStored(NotStored::of(policy, reason))),
            },
            outcome @ Outcome::NotStored(_) => Ok(outcome),
        }
    }

    fn ask_policy(&self, fetch: &Fetch<'_>, status: u16) -> Result<Outcome, Failure> {
        let (request, times) = (facts(fetch, &self.policy, self.request)?, fetch.exchange());
        let mut beresp = fetch.beresp().ok_or(Failure::WrongSubroutine)?;
        // A 304 leads to the stored headers, with the record in them.
        beresp.remove(RECORD.as_bytes());
        beresp.remove(REQUESTED.as_bytes());
        let request = match fetch.bereq() {
            Some(bereq) => request.with_response(&bereq, &beresp),
            None => request,
        };
        let response = Response { status, headers: &beresp };
        let random = u32::try_from(random::next() >> 32).unwrap_or(0);
        Ok(store::decide(&self.policy, request, &response, times, random))
    }

    fn keep(&self, fetch: &mut Fetch<'_>, stored: &Stored) -> Result<(), Failure> {
        if let Some(counters) = counters(fetch, &self.policy) {
            counters.count_stored(fetch.was_not_modified());
        }
        keep_until(fetch, stored);
        complete(fetch, &self.policy, stored)?;
        let write = |to: &mut Vec<u8>| self.subject.write(&self.policy, &self.rule, to);
        write_header(fetch, REQUESTED, write)?;
        record(fetch, &Record::stored(stored, fetch.was_not_modified()))
    }

    fn refuse(
        &self,
        fetch: &mut Fetch<'_>,
        status: u16,
        NotStored { reason, hit_for_miss }: NotStored,
    ) -> Result<(), Failure> {
        invalidation::count_unstored(reason);
        if let Some(counters) = counters(fetch, &self.policy) {
            counters.count_uncacheable(reason);
        }
        let marker = stale::keep(fetch, status, hit_for_miss).unwrap_or(hit_for_miss);
        fetch.refuse(fetch.exchange().received, marker);
        record(fetch, &Record::refused(reason, fetch.was_not_modified()))
    }
}

/// Whether ghost has decided about the response, so that the built-in VCL has no say. What user
/// VCL changed since is recorded.
pub fn is_decided(fetch: &mut Fetch<'_>) -> Result<bool, Failure> {
    let decided = stale::announced(fetch).is_some()
        || fetch.recall::<FetchTask>().is_some_and(|memory| memory.get().prepared.is_some());
    if !decided || fetch.is_served_by::<Synthetic>() {
        return Ok(decided);
    }
    let beresp = fetch.beresp().ok_or(Failure::WrongSubroutine)?;
    let Some(before) = beresp.header(RECORD.as_bytes()).and_then(Record::parse) else {
        return Ok(true);
    };
    let lifetime = fetch.times().map(|times| times.lifetime).filter(|_| !before.always_revalidate);
    let changed = lifetime.zip(before.lifetime).map(|(now, then)| now.abs_diff(then));
    if changed.is_some_and(|by| by > ROUNDING) {
        let changed = Record { lifetime, word: b"vcl", ..before };
        record(fetch, &changed)?;
    }
    Ok(true)
}

/// The key is that of a policy which the fetch doesn't know: user VCL rolled it back, or the
/// policy has changed since. The origin may have got what is not in the key.
fn lose(fetch: &mut Fetch<'_>, other: Option<&Policy>) -> Result<(), Failure> {
    let reason = NotStoredReason::OtherPolicy;
    if let Some(counters) = other.and_then(|policy| counters(fetch, policy)) {
        counters.count_uncacheable(reason);
    }
    fetch.refuse(fetch.exchange().received, SHORT_HIT_FOR_MISS);
    record(fetch, &Record::refused(reason, fetch.was_not_modified()))
}

/// Where to count what becomes of a response: with the route whose fetch it is.
fn counters(fetch: &Fetch<'_>, policy: &Policy) -> Option<Arc<CacheCounters>> {
    let memory = fetch.recall::<FetchTask>()?;
    let task = memory.get();
    Some(task.target.as_ref()?.service.counters.cache.of(&policy.name))
}

/// What the origin got: user VCL may have removed something since.
fn facts(
    fetch: &Fetch<'_>,
    policy: &Policy,
    before: StoreRequest,
) -> Result<StoreRequest, Failure> {
    let bereq = fetch.bereq().ok_or(Failure::WrongSubroutine)?;
    let now = StoreRequest::new(policy, bereq.method(), &bereq);
    Ok(StoreRequest {
        authorization: before.authorization && now.authorization,
        unkeyed_cookies: before.unkeyed_cookies && now.unkeyed_cookies,
        ..now
    })
}

fn keep_until(fetch: &mut Fetch<'_>, stored: &Stored) {
    // varnishd validates what is stale by itself.
    let lifetime = if stored.always_revalidate { Duration::ZERO } else { stored.lifetime };
    let keep = stored.keep + stored.lifetime.saturating_sub(lifetime);
    fetch.store(Times { origin: stored.origin, lifetime, grace: stored.grace, keep });
}

/// Make a response what is stored: without what others must not get, compressed if that is to be.
fn complete(fetch: &mut Fetch<'_>, policy: &Policy, stored: &Stored) -> Result<(), Failure> {
    let mut beresp = fetch.beresp().ok_or(Failure::WrongSubroutine)?;
    beresp.retain(|line| !is_of_proxy(line.split(|&byte| byte == b':').next().unwrap_or(line)));
    if stored.removes_set_cookie {
        beresp.remove(b"set-cookie");
    }
    if stored.withholds_fields {
        remove_withheld(&mut beresp);
    }
    if fetch.was_not_modified() {
        return Ok(());
    }
    let text = beresp.header(b"content-type").is_some_and(is_text);
    if policy.gzip && text && may_be_transformed(&beresp) {
        fetch.compress();
    }
    if policy.esi && text {
        fetch.include();
    }
    Ok(())
}

/// Fields that the origin doesn't want others to get. The client that caused the fetch shares
/// the object with them.
fn remove_withheld(beresp: &mut Http<'_>) {
    let names: Vec<Vec<u8>> = withheld_fields(&*beresp).map(<[u8]>::to_vec).collect();
    for name in names {
        beresp.remove(&name);
    }
}

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn record(fetch: &Fetch<'_>, record: &Record<'_>) -> Result<(), Failure> {
    write_header(fetch, RECORD, |to| record.write(to))?;
    log(fetch, record.word);
    Ok(())
}

fn write_header(
    fetch: &Fetch<'_>,
    name: &str,
    write: impl FnOnce(&mut Vec<u8>),
) -> Result<(), Failure> {
    let mut beresp = fetch.beresp().ok_or(Failure::WrongSubroutine)?;
    BUFFER.with_borrow_mut(|buffer| {
        buffer.clear();
        write(buffer);
        beresp.set(name, buffer)
    })?;
    Ok(())
}

/// Write the reason to the log.
fn log(fetch: &Fetch<'_>, word: &[u8]) {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.clear();
        buffer.extend_from_slice(b"ghost-store:");
        buffer.extend_from_slice(word);
        fetch.log(buffer);
    });
}
