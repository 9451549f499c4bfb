//! Ghost's own responses in a VCL: errors, redirects, and its pages on the loopback socket.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use ghost_core::cache::purge::methods::Method;
use ghost_core::cors::Preflight;
use ghost_core::shares::Exhausted;
use ghost_core::target::PathRules;
use ghost_core::{Cors, OverBudget};
use serde_json::json;

use super::draining;
use super::synthetic::Synthetic;
use crate::cache;
use crate::config::{lock, Instance, PurgeResult};
use crate::fetch::FetchTask;
use crate::varnish::{Director, Fetch, Http, Refused, Response, Vcl};

const NOT_PIPED: &str =
    "the VCL pipes a request that is no WebSocket, or whose rule changes responses";
const BODY_MISSING: &str = "the body of the request did not arrive in time";
const BODY_GONE: &str =
    "the body of the request is gone: it did not arrive, or VCL has restarted a request whose body \
     was sent before";
const NOT_CACHED: &str =
    "the client wants a response from the cache only, and this request bypasses the cache";
const PURGE_DENIED: &str =
    "PURGE, BAN and PURGEKEYS are for the addresses in invalidation.methods.allowedSourceRanges of \
     the GatewayClassParameters, and for requests that no gateway has forwarded";
const NOTHING_TO_PURGE: &str =
    "the rule for this host and path has no backend; purge at the listener that serves the pages";
const PURGE_AMBIGUOUS: &str =
    "the path is an expression or a prefix, and the gateway would resolve its dot segments or \
     merge its slashes; write it as paths are stored";
const LOOP: &str = "loop detected: a backend of the route sends requests back to this gateway";

/// The directors that respond by themselves.
pub struct Responses {
    vcl: Vcl,
    /// 400: the Host header or the request target is malformed.
    pub bad_request: Director,
    /// 404: no rule matches the request.
    pub not_found: Director,
    /// 405: a tunnel, or a method that one of ghost's own pages does not have.
    pub method_not_allowed: Director,
    /// 408: the client did not send the body of its request in time.
    pub body_missing: Director,
    /// 504: the same, within the time that the rule has for a request.
    pub out_of_time: Director,
    /// 504: the client wants a stored response only, and its request bypasses the cache.
    pub not_cached: Director,
    /// 400: the request announces a body that is gone.
    pub body_gone: Director,
    /// 414: rules or a cache policy take too many steps for the path or the query.
    target_over_budget: Director,
    /// 431: they take too many steps for a header.
    header_over_budget: Director,
    /// 421: the connection was made for another listener.
    pub misdirected: Director,
    /// 508: the request has passed this gateway before, and again.
    pub loop_detected: Director,
    /// 500: no backend of the rule has a weight.
    pub no_backend: Arc<Director>,
    /// 501: user VCL pipes a request that ghost does not pipe.
    pub not_piped: Arc<Director>,
    /// 503: the pool has no endpoint.
    pub no_endpoint: Arc<Director>,
    /// 503: a share is exhausted, by its index.
    overloaded: Box<[Director]>,
    /// The redirect that the fetch task holds.
    pub redirect: Arc<Director>,
    /// Reads the configuration again.
    pub reload: Director,
    /// The counters of every route.
    pub counters: Director,
    /// Begins to drain.
    pub drain: Director,
    /// Invalidates objects of the cache.
    pub invalidate: Director,
    /// Says whether it would.
    pub check: Director,
    /// Tells what is stored for a URI.
    pub inspect: Director,
    /// The same for a client, by its method.
    purges: [(Method, Director); 3],
    /// 404: the rule for the URI of such a request stores nothing.
    pub nothing_to_purge: Director,
    /// 400: the expression or beginning in its path is one that the gateway changes.
    pub purge_ambiguous: Director,
    /// 405: a client that may not ask for that.
    pub purge_denied: Director,
    /// Plain statuses that rules ask for.
    statuses: Mutex<HashMap<u16, Arc<Director>>>,
}

impl Responses {
    /// Add them to a VCL.
    pub fn new(vcl: &Vcl, instance: &Weak<Instance>) -> Result<Self, Refused> {
        let (reloading, counting) = (Weak::clone(instance), Weak::clone(instance));
        Ok(Self {
            vcl: vcl.clone(),
            bad_request: fixed(vcl, "400", 400, "malformed Host or request target")?,
            not_found: fixed(vcl, "404", 404, "no route takes this request")?,
            method_not_allowed: fixed(vcl, "405", 405, "method not allowed here")?,
            body_missing: fixed(vcl, "408", 408, BODY_MISSING)?,
            out_of_time: fixed(vcl, "504", 504, BODY_MISSING)?,
            not_cached: fixed(vcl, "not-cached", 504, NOT_CACHED)?,
            body_gone: fixed(vcl, "body-gone", 400, BODY_GONE)?,
            target_over_budget: over_budget(vcl, OverBudget::Target)?,
            header_over_budget: over_budget(vcl, OverBudget::Header)?,
            misdirected: fixed(vcl, "421", 421, "this connection is for other hosts")?,
            loop_detected: fixed(vcl, "508", 508, LOOP)?,
            no_backend: fixed(vcl, "no-backend", 500, "no backend of the rule has a weight")?
                .into(),
            not_piped: fixed(vcl, "not-piped", 501, NOT_PIPED)?.into(),
            no_endpoint: fixed(vcl, "no-endpoint", 503, "the service has no endpoint")?.into(),
            overloaded: Exhausted::ALL
                .into_iter()
                .map(|share| overloaded(vcl, share))
                .collect::<Result<_, Refused>>()?,
            redirect: Synthetic::add(vcl, "redirect", redirect)?.into(),
            reload: Synthetic::add(vcl, "reload", move |_| reload(&reloading))?,
            counters: Synthetic::add(vcl, "counters", move |_| counters(&counting))?,
            drain: Synthetic::add(vcl, "drain", |_| drain())?,
            invalidate: about_objects(vcl, "invalidate", instance, cache::purge)?,
            check: about_objects(vcl, "check", instance, cache::check_purge)?,
            inspect: about_objects(vcl, "inspect", instance, cache::inspect)?,
            purges: [
                purge(vcl, instance, "purge", Method::Purge)?,
                purge(vcl, instance, "ban", Method::Ban)?,
                purge(vcl, instance, "purgekeys", Method::PurgeKeys)?,
            ],
            nothing_to_purge: fixed(vcl, "nothing-to-purge", 404, NOTHING_TO_PURGE)?,
            purge_ambiguous: counted(
                vcl,
                instance,
                "purge-ambiguous",
                (Response::error(400, PURGE_AMBIGUOUS), PurgeResult::Malformed),
            )?,
            purge_denied: counted(
                vcl,
                instance,
                "purge-denied",
                (Response::error(405, PURGE_DENIED), PurgeResult::Denied),
            )?,
            statuses: Mutex::default(),
        })
    }

    /// Carries out what a client asks for with this method.
    pub fn purge(&self, method: Method) -> &Director {
        let [first, ..] = &self.purges;
        let (_, director) = self.purges.iter().find(|(of, _)| *of == method).unwrap_or(first);
        director
    }

    /// The response to a request whose share is exhausted.
    pub fn overloaded(&self, exhausted: Exhausted) -> &Director {
        &self.overloaded[exhausted.index()]
    }

    /// The response to a request that takes too many steps for this part of it.
    pub fn over_budget(&self, part: OverBudget) -> &Director {
        match part {
            OverBudget::Target => &self.target_over_budget,
            OverBudget::Header => &self.header_over_budget,
        }
    }

    /// A plain status that a rule asks for.
    pub fn status(&self, status: u16) -> Result<Arc<Director>, Refused> {
        let mut statuses = lock(&self.statuses);
        if let Some(director) = statuses.get(&status) {
            return Ok(Arc::clone(director));
        }
        let reason = match status {
            500 => "the rule or its backend can't be used; see the status of its route",
            503 => "the service has no endpoint",
            _ => "the rule says so",
        };
        let director = fixed(&self.vcl, &format!("status-{status}"), status, reason)?;
        Ok(Arc::clone(statuses.entry(status).or_insert(Arc::new(director))))
    }
}

fn fixed(vcl: &Vcl, name: &str, status: u16, reason: &str) -> Result<Director, Refused> {
    let response = Response::error(status, reason);
    Synthetic::add(vcl, name, move |_| response.clone())
}

fn over_budget(vcl: &Vcl, part: OverBudget) -> Result<Director, Refused> {
    fixed(vcl, &part.status().to_string(), part.status(), &part.to_string())
}

fn overloaded(vcl: &Vcl, exhausted: Exhausted) -> Result<Director, Refused> {
    let mut response = Response::error(503, &exhausted.to_string());
    response.headers.push(("Retry-After", b"1".to_vec()));
    let name = format!("overloaded-{}", exhausted.name());
    Synthetic::add(vcl, &name, move |_| response.clone())
}

/// The response to a preflight, given bereq.
pub fn preflight(cors: &Cors, bereq: &Http<'_>) -> Response {
    let asked = Preflight {
        origin: bereq.header(b"origin").unwrap_or(b""),
        method: bereq.header(b"access-control-request-method").unwrap_or(b""),
        headers: bereq.header(b"access-control-request-headers"),
    };
    let granted = cors.preflight_headers(&asked).map(|(name, value)| (name, value.to_vec()));
    let mut headers: Vec<_> = granted.collect();
    if cors.varies_by_origin() {
        headers.push(("Vary", b"Origin".to_vec()));
    }
    Response { status: 204, headers, body: Arc::default() }
}

fn redirect(fetch: &Fetch<'_>) -> Response {
    let prepared = fetch.recall::<FetchTask>().and_then(|task| task.get().redirect.clone());
    match prepared {
        Some((status, location)) => {
            Response { status, headers: vec![("Location", location)], body: Arc::default() }
        }
        None => Response::error(500, "the redirect was not prepared by ghost.fetch()"),
    }
}

fn reload(instance: &Weak<Instance>) -> Response {
    let reloaded = match instance.upgrade() {
        Some(instance) => instance.reload(),
        None => Err("the VCL is going away".to_owned()),
    };
    match reloaded {
        Ok(loaded) => page(&json!({
            "id": loaded.id,
            "routes": loaded.routes(),
            "pools": loaded.pools(),
        })),
        Err(reason) => {
            let mut response = Response::error(500, &reason);
            response.headers.push(("x-ghost-error", reason.into_bytes()));
            response
        }
    }
}

fn counters(instance: &Weak<Instance>) -> Response {
    match instance.upgrade().and_then(|instance| instance.store().cloned()) {
        Some(store) => page(&store.counters()),
        None => Response::error(500, "nothing is loaded"),
    }
}

fn drain() -> Response {
    draining::begin();
    page(&json!({ "draining": true }))
}

/// A page that reads its body as the invalidation of what clients of this Gateway request.
fn about_objects(
    vcl: &Vcl,
    name: &str,
    instance: &Weak<Instance>,
    respond: fn(&Fetch<'_>, &PathRules) -> Response,
) -> Result<Director, Refused> {
    let instance = Weak::clone(instance);
    Synthetic::add(vcl, name, move |fetch| {
        let Some(instance) = instance.upgrade() else {
            return Response::error(500, "the VCL is going away");
        };
        match instance.snapshot().as_ref() {
            Some(snapshot) => respond(fetch, &snapshot.requests.paths),
            None => Response::error(500, "nothing is loaded"),
        }
    })
}

fn purge(
    vcl: &Vcl,
    instance: &Weak<Instance>,
    name: &str,
    method: Method,
) -> Result<(Method, Director), Refused> {
    let instance = Weak::clone(instance);
    let director = Synthetic::add(vcl, name, move |fetch| {
        let (response, result) = cache::respond_to_client(fetch, method);
        count_purge(&instance, result);
        response
    })?;
    Ok((method, director))
}

fn counted(
    vcl: &Vcl,
    instance: &Weak<Instance>,
    name: &str,
    (response, result): (Response, PurgeResult),
) -> Result<Director, Refused> {
    let instance = Weak::clone(instance);
    Synthetic::add(vcl, name, move |_| {
        count_purge(&instance, result);
        response.clone()
    })
}

fn count_purge(instance: &Weak<Instance>, result: PurgeResult) {
    if let Some(store) = instance.upgrade().as_ref().and_then(|instance| instance.store()) {
        store.purges.count(result);
    }
}

fn page(content: &serde_json::Value) -> Response {
    Response {
        status: 200,
        headers: vec![("Cache-Control", b"no-store".to_vec())],
        body: content.to_string().into_bytes().into(),
    }
}
