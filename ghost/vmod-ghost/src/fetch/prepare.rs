//! Before a fetch: which backend serves it, and the request that the backend gets.

use std::sync::Arc;

use ghost_core::wire::{Listener, Redirect, Scheme};
use ghost_core::{redirect, target, Action, Host};
use ghost_sync::Handover;

use super::admission;
use super::filters::change_request;
use super::task::FetchTask;
use super::upgrade::{self, Upgraded};
use crate::cache;
use crate::config::{Instance, RuleDirector, Target};
use crate::failure::Failure;
use crate::request::{self, Responses, Synthetic};
use crate::varnish::{
    Backend, Director, Fetch, Held, Http, OutOfWorkspace, Returned, LINES_OF_VARNISHD,
};

/// Choose the backend of a fetch, and apply the request filters to bereq. A backend that is
/// not a rule's director is returned unchanged, such as one that user VCL chose.
pub fn prepare<'f>(
    fetch: &'f Fetch<'_>,
    instance: &Instance,
    backend: Backend<'f>,
) -> Result<Returned<'f>, Failure> {
    let mut bereq = fetch.bereq().ok_or(Failure::WrongSubroutine)?;
    // For any backend: varnishd would send the request without what frames its body.
    if !bereq.has_room_for(LINES_OF_VARNISHD) {
        return Err(Failure::OutOfWorkspace);
    }
    let memory = fetch.remember::<FetchTask>().ok_or(Failure::OutOfWorkspace)?;
    let mut task = memory.get_mut();
    let upgrade = mark(&mut task, &mut bereq)?;
    if lacks_body(fetch, &mut task, &mut bereq) && backend.kind::<Synthetic>().is_none() {
        // In place of any backend, also one that user VCL declares: with the length of a body
        // that never comes, the endpoint would take the next request on the connection for it.
        return Ok(memory.give(own_response(instance, |all| &all.body_gone)?));
    }
    let Some(rule) = backend.kind::<RuleDirector>() else {
        let admitted = admission::admit_foreign(fetch, instance, &mut task, backend);
        return Ok(match admitted {
            Ok(()) => Returned::unchanged(backend),
            Err(overloaded) => memory.give(overloaded),
        });
    };
    task.upgrade = upgrade.or(task.upgrade.take());
    let director = choose(fetch, instance, rule.target(), &mut task, &mut bereq)?;
    Ok(memory.give(director))
}

/// Mark the request as the gateway's, and take from it what only ghost reads. Once: filters may
/// have added headers of these names before a retry in VCL.
fn mark(
    task: &mut FetchTask,
    bereq: &mut Http<'_>,
) -> Result<Option<Arc<Handover<Upgraded>>>, OutOfWorkspace> {
    if task.marked {
        return Ok(None);
    }
    request::mark(bereq)?;
    task.marked = true;
    let upgrade = request::claim(bereq);
    task.waiting = cache::claim_waiting(bereq);
    Ok(upgrade)
}

/// Whether the request announced a body that is gone. It announces none from now on.
fn lacks_body(fetch: &Fetch<'_>, task: &mut FetchTask, bereq: &mut Http<'_>) -> bool {
    let lacks = fetch.client().is_none() && (task.bodiless || fetch.lacks_body());
    if lacks {
        task.bodiless = true;
        bereq.announce_no_body();
    }
    lacks
}

/// Choose one of the rule's backends, have the fetch hold what it needs to go there, and apply the
/// request filters.
fn choose(
    fetch: &Fetch<'_>,
    instance: &Instance,
    target: &Arc<Target>,
    task: &mut FetchTask,
    bereq: &mut Http<'_>,
) -> Result<Held, Failure> {
    let choice = target.choose();
    if let Action::Redirect(to) = &target.rule.action {
        let location = location(instance, &fetch.socket(), target, to, bereq)?;
        task.redirect = Some((to.status, location));
    }
    let piped = upgrade::is_piped(fetch, target.rule.modifies_responses())?;
    task.target = Some(Arc::clone(target));
    // Before a rejection, in whose place a stale object may be.
    let passed = fetch.is_uncacheable() && !task.withheld;
    task.prepared = None;
    if piped.is_none() && !passed {
        match cache::prepare(fetch, instance, &target.rule, bereq)? {
            Ok(prepared) => task.prepared = prepared,
            Err(over_budget) => return Ok(over_budget),
        }
    } else if passed && cache::wants_only_cached(fetch, instance, &target.rule, bereq)? {
        return own_response(instance, |all| &all.not_cached);
    }
    if let Some(share) = choice.share().filter(|_| piped != Some(false)) {
        if let Err(overloaded) = admission::admit(fetch, task, target, share) {
            return Ok(overloaded);
        }
    }
    if piped == Some(true) || (task.upgrade.is_some() && choice.share().is_some()) {
        upgrade::keep(bereq)?;
    }
    let filters = choice.backend.and_then(|index| target.backend_filters(index));
    change_request(bereq, target, filters)?;
    task.backend = choice.backend;
    if piped == Some(false) && choice.share().is_some() {
        let not_piped = Arc::clone(&target.service.responses.not_piped);
        return Ok(Held::new(not_piped, |director| director));
    }
    Ok(choice.hold())
}

/// A response of ghost's own in place of a backend's.
fn own_response(instance: &Instance, which: fn(&Responses) -> &Director) -> Result<Held, Failure> {
    let snapshot = instance.snapshot();
    let snapshot = snapshot.as_ref().ok_or(Failure::NotLoaded)?;
    Ok(Held::new(Arc::clone(&snapshot.responses), which))
}

fn location(
    instance: &Instance,
    socket: &str,
    target: &Target,
    to: &Redirect,
    bereq: &Http<'_>,
) -> Result<Vec<u8>, Failure> {
    let snapshot = instance.snapshot();
    let snapshot = snapshot.as_ref().ok_or(Failure::NotLoaded)?;
    let host = bereq.header(b"host").and_then(|host| Host::parse(host).ok());
    let host: &[u8] = host.as_deref().unwrap_or(b"");
    let listener = snapshot.router.listener(socket, host).map_or_else(unknown_listener, Arc::clone);
    let (path, query) = target::split(bereq.url());
    let matched = target.matched();
    let request = redirect::RequestParts { listener: &listener, matched, host, path, query };
    Ok(redirect::location(to, &request))
}

/// A reload may have removed the listener since: what the redirect itself sets remains.
fn unknown_listener() -> Arc<Listener> {
    Arc::new(Listener {
        name: String::new(),
        socket: String::new(),
        port: 0,
        scheme: Scheme::Http,
        hostname: String::new(),
        cache: None,
    })
}
