//! The backend's side and delivery: filters, the choice of a backend, counters.

use std::mem;
use std::sync::Arc;

use ghost_core::wire::{Listener, Redirect, Rewrite, Scheme};
use ghost_core::{redirect, rewrite, target, Action, Cors, Filters, HeaderModifier, Host};

use crate::counters::Source;
use crate::failure::Failure;
use crate::http::{Http, OutOfWorkspace};
use crate::instance::Instance;
use crate::pool::LINES_OF_VARNISHD;
use crate::routing::socket;
use crate::rule::{target_of, Target};
use crate::synthetic;
use crate::sys::{self, Ctx};
use crate::task::Task;
use crate::tasks::{address_of, ClientTask, FetchTask, Outcome};

/// Choose who serves the fetch, and make bereq what they are to see. A backend that is not
/// a rule's director is left alone, such as that of a retry.
///
/// # Safety
/// `ctx` is the context of a fetch, or of a pipe, and `backend` is null or valid.
pub unsafe fn fetch(
    ctx: Ctx,
    instance: &Instance,
    backend: sys::VCL_BACKEND,
) -> Result<sys::VCL_BACKEND, Failure> {
    // SAFETY: as promised by the caller.
    let (target, mut bereq, task) = unsafe {
        let bereq = Http::new((*ctx).http_bereq).ok_or(Failure::WrongSubroutine)?;
        // Whoever serves: varnishd would send the request without what frames its body.
        if !bereq.has_room_for(LINES_OF_VARNISHD) {
            return Err(Failure::OutOfWorkspace);
        }
        let Some(target) = target_of(backend) else { return Ok(backend) };
        (target, bereq, FetchTask::remember(ctx).ok_or(Failure::OutOfWorkspace)?)
    };
    let choice = target.choose();
    if let Action::Redirect(to) = &target.rule.action {
        // SAFETY: as promised by the caller.
        let socket = unsafe { socket(ctx) };
        task.redirect = Some((to.status, location(instance, socket, &target, to, &bereq)?));
    }
    let filters = choice.backend.and_then(|index| target.backend_filters(index));
    // SAFETY: as promised by the caller.
    unsafe { keep_upgrade(ctx, &mut bereq)? };
    change_request(&mut bereq, &target, filters)?;
    task.backend = choice.backend;
    task.returned = address_of(choice.director);
    // SAFETY: as promised by the caller.
    unsafe { count_pipe(ctx, &target) };
    task.target = Some(target);
    Ok(choice.director)
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
    let asked = redirect::RequestParts {
        listener: &listener,
        matched: target.matched(),
        host,
        path,
        query,
    };
    Ok(redirect::location(to, &asked))
}

/// A reload may have taken the listener away since: what the redirect itself says remains.
fn unknown_listener() -> Arc<Listener> {
    Arc::new(Listener {
        name: String::new(),
        socket: String::new(),
        port: 0,
        scheme: Scheme::Http,
        hostname: String::new(),
    })
}

/// The rule's filters, then those of the backend. A path is rewritten once, from what the
/// client sent: a backend's own rewrite stands instead of the rule's.
fn change_request(
    bereq: &mut Http<'_>,
    target: &Target,
    backend: Option<&Filters>,
) -> Result<(), OutOfWorkspace> {
    edit(bereq, &target.rule.filters.request)?;
    if let Some(filters) = backend {
        edit(bereq, &filters.request)?;
    }
    let of_rule = target.rule.filters.rewrite.as_ref();
    let of_backend = backend.and_then(|filters| filters.rewrite.as_ref());
    let pick = |part: fn(&Rewrite) -> bool| {
        of_backend.filter(|one| part(one)).or(of_rule.filter(|one| part(one)))
    };
    if let Some(path) = pick(|one| one.path.is_some()).and_then(|one| one.path.as_ref()) {
        let (before, query) = target::split(bereq.url());
        let after = rewrite::path(path, target.matched(), before);
        bereq.set_url(&target::join(after, query))?;
    }
    if let Some(name) = pick(|one| one.hostname.is_some()).and_then(|one| one.hostname.as_ref()) {
        bereq.set("Host", name.as_bytes())?;
    }
    Ok(())
}

/// Response filters of the chosen backend. What ghost itself answers is not kept. The
/// answer of another backend, to which user VCL went over in a retry, is left alone.
///
/// # Safety
/// `ctx` is the context of a fetch.
pub unsafe fn response(ctx: Ctx) -> Result<(), Failure> {
    // SAFETY: as promised by the caller; varnishd refers to the director that answered.
    unsafe {
        let mut beresp = Http::new((*ctx).http_beresp).ok_or(Failure::WrongSubroutine)?;
        let bo = (*ctx).bo;
        let synthetic = synthetic::answered(&*bo);
        if synthetic {
            let task = FetchTask::remember(ctx).ok_or(Failure::OutOfWorkspace)?;
            task.withheld |= (*bo).uncacheable() == 0;
            sys::VRT_l_beresp_ttl(ctx, 0.0);
            sys::VRT_l_beresp_grace(ctx, 0.0);
            sys::VRT_l_beresp_uncacheable(ctx, 1);
        }
        let Some(task) = FetchTask::recall(ctx) else { return Ok(()) };
        if !synthetic && mem::take(&mut task.withheld) {
            (*bo).set_uncacheable(0);
        }
        if task.returned != address_of((*bo).director_resp) {
            return Ok(());
        }
        let (Some(target), Some(backend)) = (&task.target, task.backend) else { return Ok(()) };
        if let Some(filters) = target.backend_filters(backend) {
            if (*bo).was_304() != 0 {
                take_back(&mut beresp, &filters.response);
            }
            edit(&mut beresp, &filters.response)?;
        }
        Ok(())
    }
}

/// CORS and response filters of the rule, which have the last word; counts the response.
///
/// # Safety
/// `ctx` is the context of a client task that delivers.
pub unsafe fn deliver(ctx: Ctx, instance: &Instance) -> Result<(), Failure> {
    // SAFETY: as promised by the caller.
    unsafe {
        let mut resp = Http::new((*ctx).http_resp).ok_or(Failure::WrongSubroutine)?;
        let Some(task) = ClientTask::recall(ctx) else { return Ok(()) };
        let status = resp.status();
        let (source, seconds) = (source(&*(*ctx).req), seconds(ctx));
        match &task.outcome {
            Outcome::Routed(entry) | Outcome::Preflight(entry) => {
                let Some(target) = entry.target() else { return Ok(()) };
                target.service.counters.count(status, source, seconds);
                if let (Some(cors), Outcome::Routed(_)) = (&target.rule.cors, &task.outcome) {
                    let req = Http::new((*ctx).http_req).ok_or(Failure::WrongSubroutine)?;
                    allow_origin(&mut resp, cors, &req)?;
                }
                edit(&mut resp, &target.rule.filters.response)?;
            }
            Outcome::Unrouted => {
                if let Some(store) = instance.store() {
                    store.unrouted.count(status, source, seconds);
                }
            }
            Outcome::Admin => {}
        }
        Ok(())
    }
}

/// Say who may read the response. What the backend says about that does not count, and it
/// may be in the cache for another origin.
fn allow_origin(resp: &mut Http<'_>, cors: &Cors, req: &Http<'_>) -> Result<(), OutOfWorkspace> {
    const OURS: &[u8] = b"access-control-";
    resp.retain(|line| {
        !line.get(..OURS.len()).is_some_and(|start| start.eq_ignore_ascii_case(OURS))
    });
    if let Some(origin) = req.header(b"origin") {
        for (name, value) in cors.response_headers(origin) {
            resp.append(&[name.as_bytes(), b": ", value])?;
        }
    }
    let told = |value: &[u8]| {
        let mut names = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        names.any(|name| name == b"*" || name.eq_ignore_ascii_case(b"origin"))
    };
    if cors.varies_by_origin() && !resp.values(b"vary").any(told) {
        resp.append_static(c"Vary: Origin")?;
    }
    Ok(())
}

/// A 304 brings the stored headers back, with what was added to them before.
fn take_back(http: &mut Http<'_>, edits: &HeaderModifier) {
    for header in &edits.add {
        http.retain(|line| line != header.line().as_bytes());
    }
}

fn edit(http: &mut Http<'_>, edits: &HeaderModifier) -> Result<(), OutOfWorkspace> {
    for header in &edits.set {
        http.remove(header.name().as_bytes());
        http.append(&[header.line().as_bytes()])?;
    }
    for header in &edits.add {
        http.append(&[header.line().as_bytes()])?;
    }
    for name in &edits.remove {
        http.remove(name.as_bytes());
    }
    Ok(())
}

/// Varnish takes the headers off that hold for one connection; a WebSocket needs them. An
/// endpoint that does not upgrade is asked to close, or else the client could go on with
/// requests to it that nobody has routed.
///
/// # Safety
/// `ctx` is a valid context.
unsafe fn keep_upgrade(ctx: Ctx, bereq: &mut Http<'_>) -> Result<(), OutOfWorkspace> {
    // SAFETY: as promised by the caller; a pipe has a req.
    let req = unsafe {
        if (*ctx).method != sys::VCL_MET_PIPE {
            return Ok(());
        }
        Http::new((*(*ctx).req).http)
    };
    if req.is_some_and(|req| req.asks_for_websocket()) {
        bereq.remove(b"connection");
        bereq.remove(b"upgrade");
        bereq.append_static(c"Connection: Upgrade, close")?;
        bereq.append_static(c"Upgrade: websocket")?;
    }
    Ok(())
}

/// A pipe is never delivered, so it is counted where it begins.
///
/// # Safety
/// `ctx` is a valid context.
unsafe fn count_pipe(ctx: Ctx, target: &Target) {
    // SAFETY: as promised by the caller; a pipe has a req.
    unsafe {
        if (*ctx).method == sys::VCL_MET_PIPE {
            target.service.counters.count(101, Source::Pass, seconds(ctx));
        }
    }
}

fn source(req: &sys::req) -> Source {
    if req.is_hit() != 0 {
        return Source::Hit;
    }
    // SAFETY: the object that is delivered is referenced by req.
    let private = unsafe { req.objcore.as_ref() }
        .is_some_and(|object| u32::from(object.flags) & sys::OC_F_PRIVATE != 0);
    if private {
        Source::Pass
    } else {
        Source::Miss
    }
}

/// Since the request was received.
///
/// # Safety
/// `ctx` is the context of a client task.
unsafe fn seconds(ctx: Ctx) -> f64 {
    // SAFETY: as promised by the caller.
    unsafe { (*ctx).now - (*(*ctx).req).t_req }
}
