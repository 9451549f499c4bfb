//! Before a fetch: which backend serves it, and the request that the backend gets.

use std::sync::Arc;

use ghost_core::wire::{Listener, Redirect, Scheme};
use ghost_core::{redirect, target, Action, Host};

use super::filters::change_request;
use super::task::FetchTask;
use crate::config::{Instance, RuleDirector, Source, Target};
use crate::failure::Failure;
use crate::request;
use crate::varnish::{Backend, Client, Fetch, Http, OutOfWorkspace, Returned, LINES_OF_VARNISHD};

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
    let Some(rule) = backend.kind::<RuleDirector>() else {
        return Ok(Returned::unchanged(backend));
    };
    let target = rule.target();
    let choice = target.choose();
    if let Action::Redirect(to) = &target.rule.action {
        let location = location(instance, fetch.socket(), target, to, &bereq)?;
        task.redirect = Some((to.status, location));
    }
    let filters = choice.backend.and_then(|index| target.backend_filters(index));
    keep_upgrade(fetch, &mut bereq)?;
    change_request(&mut bereq, target, filters)?;
    task.backend = choice.backend;
    count_pipe(fetch, target);
    task.target = Some(Arc::clone(target));
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

/// varnishd removes the headers that hold for one connection; a WebSocket needs them. ghost
/// asks an endpoint that does not upgrade to close, or else the client could continue with
/// requests to it that ghost has not routed.
fn keep_upgrade(fetch: &Fetch<'_>, bereq: &mut Http<'_>) -> Result<(), OutOfWorkspace> {
    let pipe = fetch.client();
    let req = pipe.as_ref().and_then(Client::req);
    if req.is_some_and(|req| req.asks_for_websocket()) {
        bereq.remove(b"connection");
        bereq.remove(b"upgrade");
        bereq.append_static(c"Connection: Upgrade, close")?;
        bereq.append_static(c"Upgrade: websocket")?;
    }
    Ok(())
}

/// varnishd does not deliver a pipe, so ghost counts it where it begins.
fn count_pipe(fetch: &Fetch<'_>, target: &Target) {
    if let Some(client) = fetch.client() {
        target.service.counters.count(101, Source::Pass, client.seconds());
    }
}
