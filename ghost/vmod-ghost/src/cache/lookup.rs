//! Whether the cache may answer a request, and why it could not.

use ghost_core::cache::status::Forward;
use ghost_core::cache::{RequestDirectives, RevalidateReason, Survey};
use ghost_core::OverBudget;

use super::headers::survey;
use super::key;
use super::stale;
use super::task::{CacheTask, Pass, Stage, OVER_BUDGET};
use crate::config::Instance;
use crate::failure::Failure;
use crate::request::ClientTask;
use crate::varnish::{Client, Memory};

/// Whether to look a request up in the cache. One that takes too many steps is passed to the
/// error.
pub fn lookup(client: &Client<'_>, instance: &Instance) -> Result<bool, Failure> {
    let Some(memory) = client.recall::<ClientTask>() else { return Ok(false) };
    let task = memory.get();
    let Some(cached) = key::of(client, memory, &task) else { return Ok(false) };
    let http = client.req().ok_or(Failure::WrongSubroutine)?;
    let survey = Survey { upgrade: task.upgrade.is_some(), ..survey(&http) };
    let cache = client.remember::<CacheTask>().ok_or(Failure::OutOfWorkspace)?;
    let mut cache = cache.get_mut();
    let pass = match cached.policy.bypass_reason(http.method(), survey, &http, &task.steps) {
        Ok(reason) => reason.map(Pass::Bypass),
        Err(part) => {
            reject(client, instance, memory, part)?;
            Some(Pass::OverBudget)
        }
    };
    if survey.directives && cached.policy.honours_requests {
        cache.asked = RequestDirectives::parse(&http);
    }
    cache.stage = pass.map_or(Stage::Lookup, Stage::Pass);
    Ok(pass.is_none())
}

/// Have the error take the place of the rule's backend.
fn reject(
    client: &Client<'_>,
    instance: &Instance,
    memory: &Memory<ClientTask>,
    part: OverBudget,
) -> Result<(), Failure> {
    let snapshot = instance.snapshot();
    let snapshot = snapshot.as_ref().ok_or(Failure::NotLoaded)?;
    client.set_backend_hint(memory.give(snapshot.reject_over_budget(part)));
    Ok(())
}

/// The cache has no answer: find out why. A client that wants nothing else gets 504; a response
/// that it doesn't want to be stored is fetched for it alone. One without a key gets an error.
pub fn miss(client: &Client<'_>, instance: &Instance) -> Result<(), Failure> {
    let Some(memory) = client.recall::<ClientTask>() else { return Ok(()) };
    let task = memory.get();
    let Some(cached) = key::of(client, memory, &task) else { return Ok(()) };
    let cache = client.remember::<CacheTask>().ok_or(Failure::OutOfWorkspace)?;
    let mut cache = cache.get_mut();
    if let Some(part) = cache.keyless {
        // VCL may roll the request back and restart it, and no memory of it is left then.
        client.miss_always(cache.missed_always);
        cache.missed = Some((Forward::Bypass, OVER_BUDGET));
        client.pass();
        return reject(client, instance, memory, part);
    }
    let reason = reason(client, &cache);
    cache.missed = Some(reason);
    if matches!(reason.0, Forward::Request | Forward::Stale) && !cache.revived {
        stale::expect(client, &cached.policy, &mut cache)?;
    }
    if cache.asked.only_if_cached {
        client.respond_instead(504, "Gateway Timeout");
        return Ok(());
    }
    // Also with no-store: the origin is asked once more although the response is fresh.
    if let (Forward::Request, Some(forced)) = (reason.0, &cache.forced) {
        forced.spend(client.now());
    }
    if cache.asked.no_store {
        cache.missed = Some((Forward::Request, "request-no-store"));
        client.pass();
    }
    Ok(())
}

fn reason(client: &Client<'_>, cache: &CacheTask) -> (Forward, &'static str) {
    let stale = client.stale_object().is_some();
    match cache.validates {
        _ if client.is_hit_for_miss() => (Forward::Miss, "hit-for-miss"),
        Some(reason) if reason.is_forced() => (Forward::Request, reason.name()),
        Some(reason) => (Forward::Stale, reason.name()),
        None if stale => (Forward::Stale, RevalidateReason::Stale.name()),
        None if cache.other_variants => (Forward::VaryMiss, "vary-miss"),
        None => (Forward::UriMiss, "uri-miss"),
    }
}
