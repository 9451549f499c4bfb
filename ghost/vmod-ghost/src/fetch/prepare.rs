//! Before a fetch: which backend serves it, and the request that the backend gets.

use std::sync::Arc;

use ghost_core::wire::{Listener, Redirect, Scheme};
use ghost_core::{redirect, target, Action, Host};

use super::filters::change_request;
use super::task::FetchTask;
use super::upgrade;
use crate::config::{Instance, RuleDirector, Target};
use crate::failure::Failure;
use crate::request;
use crate::varnish::{Backend, Fetch, Held, Http, Returned, LINES_OF_VARNISHD};

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
    if !task.marked {
        request::mark(&mut bereq)?;
        task.marked = true;
    }
    let upgrade = request::claim(&mut bereq);
    let Some(rule) = backend.kind::<RuleDirector>() else {
        return Ok(Returned::unchanged(backend));
    };
    let target = rule.target();
    let choice = target.choose();
    task.upgrade = upgrade.or(task.upgrade.take());
    if let Action::Redirect(to) = &target.rule.action {
        let location = location(instance, fetch.socket(), target, to, &bereq)?;
        task.redirect = Some((to.status, location));
    }
    let filters = choice.backend.and_then(|index| target.backend_filters(index));
    let piped = upgrade::is_piped(fetch, target.rule.modifies_responses())?;
    if piped == Some(true) || (task.upgrade.is_some() && choice.is_pool()) {
        upgrade::keep(&mut bereq)?;
    }
    change_request(&mut bereq, target, filters)?;
    task.backend = choice.backend;
    task.target = Some(Arc::clone(target));
    if piped == Some(false) && choice.is_pool() {
        let not_piped = Arc::clone(&target.service.responses.not_piped);
        return Ok(memory.give(Held::new(not_piped, |director| director)));
    }
    Ok(memory.give(choice.hold()))
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
    })
}
