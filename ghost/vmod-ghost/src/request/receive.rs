//! Finding the rule for a request.

use std::borrow::Cow;
use std::hash::BuildHasher;
use std::mem;
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use ghost_core::target::PathRules;
use ghost_core::{is_tunnel_request, join_values, target, Host, Request, Steps};

use super::admission;
use super::body::{self, Missing};
use super::draining;
use super::forwarding;
use super::loops;
use super::purging::{self, Judged, Purging};
use super::reserved;
use super::responses::Responses;
use super::survey::Survey;
use super::task::{ClientTask, Outcome};
use crate::cache::{self, Cached};
use crate::config::{Entry, Instance, Snapshot};
use crate::failure::Failure;
use crate::varnish::{Client, Director, Held, Http, OutOfWorkspace, Returned};

/// The socket on which ghost serves its own pages.
const ADMIN_SOCKET: &str = "ghost-reload";
const ADMIN_PATHS: &[u8] = b"/.varnish-ghost/";

/// The names of sockets behind the TLS terminator begin so.
const TLS_SOCKETS: &str = "https-";

/// Which of ghost's own responses to give.
type Pick = fn(&Responses) -> &Director;

/// A request as the router sees it.
struct Routed<'a> {
    socket: &'a str,
    host: &'a Host,
    http: &'a Http<'a>,
    method: &'a [u8],
    path: &'a [u8],
    query: Option<&'a [u8]>,
}

impl Request for Routed<'_> {
    fn socket(&self) -> &str {
        self.socket
    }

    fn host(&self) -> &[u8] {
        self.host
    }

    fn method(&self) -> &[u8] {
        self.method
    }

    fn path(&self) -> &[u8] {
        self.path
    }

    fn query(&self) -> Option<&[u8]> {
        self.query
    }

    fn header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        join_values(self.http.values(name.as_bytes()))
    }
}

/// Find the rule for a request and return the director that serves it.
pub fn receive<'c>(client: &'c Client<'_>, instance: &Instance) -> Result<Returned<'c>, Failure> {
    // varnishd may have left out a header, such as X-Forwarded-For.
    if client.has_overflowed() {
        return Err(Failure::OutOfWorkspace);
    }
    let mut http = client.req().ok_or(Failure::WrongSubroutine)?;
    draining::on_request(client);
    let snapshot = instance.snapshot();
    let snapshot = snapshot.as_ref().ok_or(Failure::NotLoaded)?;
    let socket = &*client.socket();
    let terminated = socket.starts_with(TLS_SOCKETS);
    let survey = Survey::of(&http);
    let proxies = &snapshot.requests.proxies;
    let tls = forwarding::sanitise(client, &mut http, survey, proxies, terminated)?;
    if survey.reserved {
        reserved::remove(client);
    }
    http.append(&[b"X-Gateway-Listener: ", socket.as_bytes()])?;
    http.append_static(if tls { c"X-Forwarded-Proto: https" } else { c"X-Forwarded-Proto: http" })?;
    let server_name = if terminated { client.server_name() } else { b"" };
    let purging = purging::judge(client, &http, &snapshot.requests);
    let memory = client.remember::<ClientTask>().ok_or(Failure::OutOfWorkspace)?;
    let (mut outcome, mut director, mut cached) =
        route(&mut http, socket, server_name, snapshot, purging, &memory.get().steps)?;
    if survey.cdn_loop && loops::is_loop(client, &mut http)? {
        if let Outcome::Routed(entry, _) | Outcome::Preflight(entry) = outcome {
            director = Held::new(Arc::clone(&snapshot.responses), |all| &all.loop_detected);
            outcome = Outcome::Loop(entry);
            cached = None;
        }
    }
    // A restart gives back what the request held, before it asks again.
    (memory.get_mut().workers, memory.get_mut().rejection) = (None, None);
    if let Some(timeouts) = memory.get_mut().dismissed.take() {
        client.set_send_timeouts(timeouts);
    }
    let limits = &snapshot.requests.limits;
    let (workers, rejected) = match admission::admit(client, instance, limits, &outcome) {
        Ok(workers) => (workers, None),
        Err(exhausted) => {
            let responses = Arc::clone(&snapshot.responses);
            director = Held::new(responses, |all| all.overloaded(exhausted));
            (None, Some(exhausted))
        }
    };
    if matches!(outcome, Outcome::Purge(_)) {
        client.decline_body();
    }
    // VCL may have made it a request without a body since.
    let mut missing = memory.get().missing.filter(|missing| !matches!(missing, Missing::Gone));
    if let (Outcome::Routed(entry, _), None, None) = (&outcome, rejected, missing) {
        missing = body::keep(client, &http, &entry.target().rule).err();
    }
    if let Some(missing) = missing {
        director = Held::new(Arc::clone(&snapshot.responses), |all| missing.response(all));
    }
    if cached.is_some() {
        cache::begin(client)?;
    }
    let digest = digest(&http);
    let (steps, fresh) = (mem::take(&mut memory.get_mut().steps), ClientTask::default());
    *memory.get_mut() = ClientTask {
        outcome,
        tls,
        purging,
        workers,
        rejected,
        missing,
        cached,
        digest,
        steps,
        ..fresh
    };
    admission::reject_at_once(client, instance, memory);
    Ok(memory.give(director))
}

fn route(
    http: &mut Http<'_>,
    socket: &str,
    server_name: &[u8],
    snapshot: &Snapshot,
    purging: Option<Purging>,
    steps: &Steps,
) -> Result<(Outcome, Held, Option<Cached>), Failure> {
    let response = |pick: Pick| {
        Ok((Outcome::Unrouted, Held::new(Arc::clone(&snapshot.responses), pick), None))
    };
    if socket == ADMIN_SOCKET && http.url().starts_with(ADMIN_PATHS) {
        if let Some(page) = admin_page(http) {
            let page = Held::new(Arc::clone(&snapshot.responses), page);
            return Ok((Outcome::Admin, page, None));
        }
    }
    if is_tunnel_request(http.method()) {
        return response(|all| &all.method_not_allowed);
    }
    let judged = purging::judged(http, purging);
    if let Some(rejected) = normalise(http, &snapshot.requests.paths, &judged)? {
        return response(rejected);
    }
    let Some(host) = host(http) else { return response(|all| &all.bad_request) };
    if snapshot.router.is_misdirected(socket, server_name, &host) {
        return response(|all| &all.misdirected);
    }
    let method = match judged {
        Judged::Denied => return response(|all| &all.purge_denied),
        // It goes where its URI would be requested.
        Judged::Allowed(_) => &b"GET"[..],
        Judged::Other => http.method(),
    };
    let (path, query) = target::split(http.url());
    let routed = Routed { socket, host: &host, http, method, path, query };
    let found = match snapshot.router.find_within(&routed, steps) {
        Ok(Some(found)) => found,
        Ok(None) => return response(|all| &all.not_found),
        Err(over) => return Ok((Outcome::Unrouted, snapshot.reject_over_budget(over), None)),
    };
    let (entry, index) = (Arc::clone(found.payload), found.match_index);
    let (route, preflight) = (&found.rule.route, found.preflight);
    http.append(&[b"X-Gateway-Route: ", route.as_bytes()])?;
    if let Judged::Allowed(ask) = judged {
        let (outcome, director) = ask.answer(entry, &snapshot.responses);
        return Ok((outcome, director, None));
    }
    if preflight {
        let director = Held::new(Arc::clone(&entry), Entry::preflight);
        return Ok((Outcome::Preflight(entry), director, None));
    }
    let cached = Cached::find(found.rule, found.listener, &snapshot.listener_policies);
    let director = Held::new(Arc::clone(&entry), |entry| entry.director(index));
    Ok((Outcome::Routed(entry, index), director, cached))
}

/// Give the target the form that rules compare. Out: the response to one that has none.
fn normalise(
    http: &mut Http<'_>,
    paths: &PathRules,
    judged: &Judged,
) -> Result<Option<Pick>, OutOfWorkspace> {
    adopt_authority(http)?;
    let Ok(merged) = paths.apply(http.url()) else { return Ok(Some(|all| &all.bad_request)) };
    let Ok(url) = target::normalise(&merged, http.method()) else {
        return Ok(Some(|all| &all.bad_request));
    };
    if *url != *http.url() {
        if matches!(judged, Judged::Allowed(ask) if ask.needs_exact_path(http)) {
            return Ok(Some(|all| &all.purge_ambiguous));
        }
        http.set_url(&url)?;
    }
    Ok(None)
}

/// The host of an absolute target replaces the Host header. varnishd itself does so for
/// targets that begin with "http://" and have a path.
fn adopt_authority(http: &mut Http<'_>) -> Result<(), OutOfWorkspace> {
    let Some((authority, rest)) = target::split_absolute(http.url()) else { return Ok(()) };
    http.set("Host", authority)?;
    if rest.starts_with(b"/") {
        http.set_url(rest)
    } else {
        http.set_url(&[b"/", rest].concat())
    }
}

/// The director of one of ghost's own pages. A request that has passed a gateway gets none:
/// the endpoint of a route can be any address, also that of the socket.
fn admin_page(http: &Http<'_>) -> Option<Pick> {
    if http.header(loops::HEADER).is_some() {
        return None;
    }
    let (path, _) = target::split(http.url());
    let (methods, page): (&[&[u8]], Pick) = match path.strip_prefix(ADMIN_PATHS)? {
        b"reload" => (&[b"GET", b"POST"], |all| &all.reload),
        b"counters" => (&[b"GET"], |all| &all.counters),
        // They can't be undone, or tell what is stored: nothing that follows a link or fetches a
        // picture may cause them.
        b"drain" | b"invalidate" | b"check" | b"inspect"
            if http.header(b"host") != Some(b"localhost") =>
        {
            return Some(|all| &all.misdirected)
        }
        b"invalidate" => (&[b"POST"], |all| &all.invalidate),
        b"check" => (&[b"POST"], |all| &all.check),
        b"inspect" => (&[b"POST"], |all| &all.inspect),
        b"drain" => (&[b"POST"], |all| &all.drain),
        _ => return None,
    };
    let allowed = methods.contains(&http.method());
    Some(if allowed { page } else { |all| &all.method_not_allowed })
}

/// Whether URL, Host or method are no longer those that `recv` left, and user VCL chose no
/// other backend since.
pub fn has_changed(client: &Client<'_>) -> Result<bool, Failure> {
    let http = client.req().ok_or(Failure::WrongSubroutine)?;
    // A rollback drops the memory of the task, and the headers that recv set.
    let Some(memory) = client.recall::<ClientTask>() else { return Ok(true) };
    Ok(memory.gave(client.backend_hint()) && digest(&http) != memory.get().digest)
}

/// The one Host header in the form that the router compares. Only HTTP/1.0 may leave it out.
/// None may be empty: that is also what a target without an authority leads to.
fn host(http: &Http<'_>) -> Option<Host> {
    let mut values = http.values(b"host");
    let (first, second) = (values.next(), values.next());
    let host = match (first, second) {
        (Some(host), None) if !host.is_empty() => host,
        (None, _) if http.protocol() == b"HTTP/1.0" => b"",
        _ => return None,
    };
    Host::parse(host).ok()
}

/// Tells whether URL, Host or method changed.
fn digest(http: &Http<'_>) -> u64 {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    let host = http.header(b"host").unwrap_or(b"");
    KEY.get_or_init(RandomState::default).hash_one((http.method(), http.url(), host))
}
