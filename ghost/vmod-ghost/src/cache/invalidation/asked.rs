//! Invalidations that clients ask for on the sockets of listeners: PURGE, BAN and PURGEKEYS.
//!
//! Whether a client may ask is decided before; here it may. A request reaches the objects of one
//! namespace: that of the route which its host and path lead to.

use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use ghost_core::cache::purge::methods::{Asked, Method};
use ghost_core::cache::purge::Done;
use ghost_core::shares::namespace_of;
use ghost_core::Host;
use ghost_sync::{Place, Turns};
use serde_json::json;

use super::purge::carry_out;
use crate::config::{on_own_thread, PurgeResult};
use crate::varnish::{has_index, Fetch, Http, Response};

/// Each request holds two workers: so many wait or are carried out in all, with a part that other
/// namespaces have.
const PLACES: usize = 32;
/// So many are carried out at once, of all namespaces and of one.
const TURNS: (usize, usize) = (4, 2);
/// For how long a request waits for its turn. Those that a content management system sends in a
/// burst wait rather than fail.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it asks whether it is its turn.
const PAUSE: Duration = Duration::from_millis(1);

static ALL: LazyLock<Turns> = LazyLock::new(|| Turns::new(PLACES, TURNS.0, TURNS.1));

/// Carry out what a request asks for. Out: the response, with the number of objects, or with the
/// reason why nothing was done; and what became of it.
pub fn respond(fetch: &Fetch<'_>, method: Method) -> (Response, PurgeResult) {
    // Before user VCL changes it.
    let Some(request) = fetch.original() else { return failed("there is no request") };
    let Some(route) =
        request.header(b"x-gateway-route").and_then(|it| std::str::from_utf8(it).ok())
    else {
        return failed("the request has no route any more");
    };
    let namespace = namespace_of(route);
    let Some(_turn) = turn(namespace) else {
        return busy(
            "too many invalidations at once; name several tags in one, or repeat it later",
        );
    };
    let headers = headers_of(&request);
    let headers: Vec<_> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    let host = request.header(b"host").and_then(|host| Host::parse(host).ok());
    let asked = Asked {
        // The one that was judged: user VCL may have changed it since.
        method,
        host: host.as_deref().unwrap_or_default(),
        target: request.url(),
        namespace,
    };
    // A regular expression takes more stack than a worker of varnishd's has.
    match on_own_thread(|| Ok(asked.read(&headers).map(|purge| carry_out(&purge)))) {
        Ok(Ok(_)) if !has_index() => failed("the index of cached objects is broken"),
        Ok(Ok(done)) => match done.unfinished() {
            None => (page(&done, namespace), PurgeResult::Done),
            Some(_) => busy("it took too long, and a part is left; repeat it"),
        },
        Ok(Err(why)) => (Response::error(400, &why.to_string()), PurgeResult::Malformed),
        Err(reason) => failed(&reason),
    }
}

/// For another thread, which the head itself can't go to.
fn headers_of(request: &Http<'_>) -> Vec<(String, Vec<u8>)> {
    let split = |line: &[u8]| {
        let at = line.iter().position(|&byte| byte == b':')?;
        let name = String::from_utf8_lossy(&line[..at]).into_owned();
        Some((name, line[at + 1..].trim_ascii().to_vec()))
    };
    request.lines().filter_map(split).collect()
}

fn turn(namespace: &str) -> Option<Place<'static>> {
    let mut place = ALL.wait(namespace)?;
    let begun = Instant::now();
    while !place.take_turn() {
        if begun.elapsed() > PATIENCE {
            return None;
        }
        thread::sleep(PAUSE);
    }
    Some(place)
}

fn page(done: &Done, namespace: &str) -> Response {
    let objects: u64 = done.objects.iter().sum();
    Response {
        status: 200,
        headers: vec![("Cache-Control", b"no-store".to_vec())],
        body: json!({ "namespace": namespace, "objects": objects }).to_string().into_bytes().into(),
    }
}

fn busy(reason: &str) -> (Response, PurgeResult) {
    let mut response = Response::error(503, reason);
    response.headers.push(("Retry-After", b"1".to_vec()));
    (response, PurgeResult::Busy)
}

fn failed(reason: &str) -> (Response, PurgeResult) {
    (Response::error(500, reason), PurgeResult::Busy)
}
