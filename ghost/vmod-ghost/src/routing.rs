//! The client's side: which rule takes a request.

use std::borrow::Cow;
use std::ffi::CStr;
use std::hash::BuildHasher;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use ghost_core::{is_tunnel_request, join_values, target, Action, Host, Request, Rule};

use crate::answers::Answers;
use crate::failure::Failure;
use crate::http::{Http, OutOfWorkspace};
use crate::instance::{Instance, Snapshot};
use crate::proxy;
use crate::rule::Entry;
use crate::sys::{self, Ctx};
use crate::task::Task;
use crate::tasks::{address_of, ClientTask, Outcome};

/// The socket on which ghost serves its own pages.
const ADMIN_SOCKET: &str = "ghost-reload";
const ADMIN_PATHS: &[u8] = b"/.varnish-ghost/";

/// Bodies of requests that are kept for a retry, by their length.
const SMALL: RangeInclusive<sys::VCL_BYTES> = 1..=64 << 10;

/// Sockets on which TLS has ended before varnishd have names that begin so.
const TLS_SOCKETS: &str = "https-";

/// Beginnings of header lines that clients must not send, in lower case.
const RESERVED: [&[u8]; 3] = [b"x-ghost-", b"x-gateway-", b"x-forwarded-proto:"];

/// A request as the router asks for it.
struct Asked<'a> {
    socket: &'a str,
    host: &'a Host,
    http: &'a Http<'a>,
    path: &'a [u8],
    query: Option<&'a [u8]>,
}

impl Request for Asked<'_> {
    fn socket(&self) -> &str {
        self.socket
    }

    fn host(&self) -> &[u8] {
        self.host
    }

    fn method(&self) -> &[u8] {
        self.http.method()
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

/// Find the rule for a request and return the director to go on with.
///
/// # Safety
/// `ctx` is the context of a client task.
pub unsafe fn recv(ctx: Ctx, instance: &Instance) -> Result<sys::VCL_BACKEND, Failure> {
    // SAFETY: as promised by the caller; req is this thread's.
    let (mut http, socket) = unsafe {
        // A header that varnishd had to leave out, such as X-Forwarded-For, is not missed later.
        if sys::WS_Overflowed((*ctx).ws) != 0 {
            return Err(Failure::OutOfWorkspace);
        }
        remove_reserved(ctx);
        (Http::new((*ctx).http_req).ok_or(Failure::WrongSubroutine)?, socket(ctx))
    };
    let snapshot = instance.snapshot();
    let snapshot = snapshot.as_ref().ok_or(Failure::NotLoaded)?;
    let tls = socket.starts_with(TLS_SOCKETS);
    http.append(&[b"X-Gateway-Listener: ", socket.as_bytes()])?;
    http.append_static(if tls { c"X-Forwarded-Proto: https" } else { c"X-Forwarded-Proto: http" })?;
    // SAFETY: as promised by the caller.
    let server_name = if tls { unsafe { proxy::server_name(ctx) } } else { b"" };
    let (outcome, director) = route(&mut http, socket, server_name, snapshot)?;
    // SAFETY: as promised by the caller.
    unsafe {
        if let Outcome::Routed(entry) = &outcome {
            keep_body(ctx, &http, entry);
        }
        let task = ClientTask::remember(ctx).ok_or(Failure::OutOfWorkspace)?;
        *task = ClientTask { outcome, tls, seen: digest(&http), returned: address_of(director) };
    }
    Ok(director)
}

fn route(
    http: &mut Http<'_>,
    socket: &str,
    server_name: &[u8],
    snapshot: &Snapshot,
) -> Result<(Outcome, sys::VCL_BACKEND), Failure> {
    let answers = &snapshot.answers;
    if socket == ADMIN_SOCKET && http.url().starts_with(ADMIN_PATHS) {
        if let Some(director) = admin(http, answers) {
            return Ok((Outcome::Admin, director));
        }
    }
    if is_tunnel_request(http.method()) {
        return Ok((Outcome::Unrouted, answers.method_not_allowed.raw()));
    }
    let bad_request = (Outcome::Unrouted, answers.bad_request.raw());
    take_authority(http)?;
    let Ok(url) = target::normalise(http.url(), http.method()) else { return Ok(bad_request) };
    if let Cow::Owned(resolved) = &url {
        http.set_url(resolved)?;
    }
    let Some(host) = host(http) else { return Ok(bad_request) };
    if snapshot.router.is_misdirected(socket, server_name, &host) {
        return Ok((Outcome::Unrouted, answers.misdirected.raw()));
    }
    let (path, query) = target::split(http.url());
    let asked = Asked { socket, host: &host, http, path, query };
    let Some(found) = snapshot.router.find(&asked) else {
        return Ok((Outcome::Unrouted, answers.not_found.raw()));
    };
    let (entry, preflight) = (Arc::clone(found.payload), found.preflight);
    let director = if preflight { entry.preflight() } else { entry.director(found.match_index) };
    http.append(&[b"X-Gateway-Route: ", found.rule.route.as_bytes()])?;
    Ok((if preflight { Outcome::Preflight(entry) } else { Outcome::Routed(entry) }, director))
}

/// Read the body of a request that may have to be sent twice, if it is small.
///
/// # Safety
/// `ctx` is the context of a client task.
unsafe fn keep_body(ctx: Ctx, http: &Http<'_>, entry: &Entry) {
    let retries = entry.target().is_some_and(|target| target.rule.retry.is_some());
    if !retries {
        return;
    }
    let length = http.header(b"content-length").and_then(|text| std::str::from_utf8(text).ok());
    let small = length.and_then(|text| text.parse().ok()).is_some_and(|it| SMALL.contains(&it));
    // SAFETY: as promised by the caller. A body that does not come fails the fetch.
    unsafe {
        if small && (*ctx).method == sys::VCL_MET_RECV {
            sys::VRT_CacheReqBody(ctx, *SMALL.end());
        }
    }
}

/// The host of an absolute target counts, whatever the Host header says. varnishd itself
/// takes care of those that begin with "http://" and have a path.
fn take_authority(http: &mut Http<'_>) -> Result<(), OutOfWorkspace> {
    let Some((authority, rest)) = target::split_absolute(http.url()) else { return Ok(()) };
    http.set("Host", authority)?;
    if rest.starts_with(b"/") {
        http.set_url(rest)
    } else {
        http.set_url(&[b"/", rest].concat())
    }
}

/// The director of one of ghost's own pages.
fn admin(http: &Http<'_>, answers: &Answers) -> Option<sys::VCL_BACKEND> {
    let (path, _) = target::split(http.url());
    let (methods, page): (&[&[u8]], _) = match path.strip_prefix(ADMIN_PATHS)? {
        b"reload" => (&[b"GET", b"POST"], &answers.reload),
        b"counters" => (&[b"GET"], &answers.counters),
        _ => return None,
    };
    let allowed = methods.contains(&http.method());
    Some(if allowed { page.raw() } else { answers.method_not_allowed.raw() })
}

/// Whether URL, Host or method are no longer those that `recv` saw, and nobody chose
/// another backend since.
///
/// # Safety
/// `ctx` is the context of a client task.
pub unsafe fn changed(ctx: Ctx) -> Result<bool, Failure> {
    // SAFETY: as promised by the caller.
    unsafe {
        let http = Http::new((*ctx).http_req).ok_or(Failure::WrongSubroutine)?;
        // A rollback forgets what was seen, and takes the headers back that recv set.
        let Some(task) = ClientTask::recall(ctx) else { return Ok(true) };
        let ours = address_of((*(*ctx).req).director_hint) == task.returned;
        Ok(ours && digest(&http) != task.seen)
    }
}

/// Whether the request asks to go on as a WebSocket, and can: over HTTP/1.1, to a backend
/// whose answer may go out as it is. Nobody sees the answer in a pipe, and an endpoint need
/// not upgrade: any client could otherwise do away with the response filters of a rule.
///
/// # Safety
/// `ctx` is the context of a client task.
pub unsafe fn is_websocket(ctx: Ctx) -> Result<bool, Failure> {
    // SAFETY: as promised by the caller.
    unsafe {
        let http = Http::new((*ctx).http_req).ok_or(Failure::WrongSubroutine)?;
        if !http.asks_for_websocket() {
            return Ok(false);
        }
        let Some(ClientTask { outcome: Outcome::Routed(entry), .. }) = ClientTask::recall(ctx)
        else {
            return Ok(false);
        };
        let to_a_backend = |rule: &Rule| matches!(rule.action, Action::Backends(_));
        let rule = entry.target().map(|target| &*target.rule);
        Ok(rule.is_some_and(|rule| to_a_backend(rule) && !rule.modifies_responses()))
    }
}

/// The one Host header in the form that is compared. Only HTTP/1.0 may leave it out, and none may be empty: that
/// is also what becomes of a target without an authority.
fn host(http: &Http<'_>) -> Option<Host> {
    let mut values = http.values(b"host");
    let host = match values.next() {
        Some(host) if !host.is_empty() => host,
        None if http.protocol() == b"HTTP/1.0" => b"",
        _ => return None,
    };
    let host = Host::parse(host).ok()?;
    values.next().is_none().then_some(host)
}

/// The name of the socket that the request came in on.
///
/// # Safety
/// `ctx` is the context of a client or fetch task.
pub unsafe fn socket<'a>(ctx: Ctx) -> &'a str {
    // SAFETY: as promised by the caller; names of sockets live as long as varnishd.
    unsafe {
        let name = sys::VRT_r_local_socket(ctx);
        if name.is_null() {
            return "";
        }
        CStr::from_ptr(name).to_str().unwrap_or("")
    }
}

/// Remove what clients must not send, and what `recv` itself set before a restart, also from the copy that a rollback returns to.
///
/// # Safety
/// `ctx` is the context of a client task.
unsafe fn remove_reserved(ctx: Ctx) {
    // Some backends, such as those behind CGI, take "_" for "-".
    let same = |(sent, reserved): (&u8, &u8)| {
        sent.to_ascii_lowercase() == *reserved || (*sent, *reserved) == (b'_', b'-')
    };
    let is = |line: &[u8], reserved: &[u8]| {
        line.len() >= reserved.len() && line.iter().zip(reserved).all(same)
    };
    // Most headers are told by their first letter.
    let keep = |line: &[u8]| {
        !matches!(line.first(), Some(b'x' | b'X')) || !RESERVED.iter().any(|name| is(line, name))
    };
    // SAFETY: as promised by the caller; both heads are this thread's.
    unsafe {
        let Some(req) = (*ctx).req.as_ref() else { return };
        if let Some(mut http) = Http::new(req.http) {
            http.retain(keep);
        }
        if req.restarts == 0 && req.esi_level == 0 {
            if let Some(mut original) = Http::new(req.http0) {
                original.retain(keep);
            }
        }
    }
}

/// Tells whether URL, Host or method changed.
fn digest(http: &Http<'_>) -> u64 {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    let host = http.header(b"host").unwrap_or(b"");
    KEY.get_or_init(RandomState::default).hash_one((http.method(), http.url(), host))
}
