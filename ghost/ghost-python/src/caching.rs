//! What the cache does with a request and its response, as a JSON document; `_ghost.pyi`
//! describes both.

use std::time::Duration;

use ghost_core::cache::key::cookies::cookies;
use ghost_core::cache::key::{self, KeyRequest};
use ghost_core::cache::poisoning::{keyed_cookies, treatment, Treatment};
use ghost_core::cache::{
    store, BypassReason, Exchange, Outcome, Policy, Response, StoreRequest, Stored, Survey,
    Timestamp,
};
use ghost_core::{target, Host, OverBudget, Steps};
use serde::{Deserialize, Serialize};

use crate::explanation::OverBudgetError;

type Lines = Vec<(String, String)>;
type Fields = Vec<(String, Vec<u8>)>;

/// A request and the rule that serves it, and the response to it if there is one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    method: String,
    headers: Lines,
    rule: String,
    listener: String,
    https: bool,
    /// The host as the client sends it, with a port.
    authority: String,
    target: String,
    /// What its routes have left of its budget.
    steps: u64,
    response: Option<Answer>,
    /// Milliseconds since 1970.
    now: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    status: u16,
    headers: Lines,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Document {
    over_budget: Option<OverBudgetError>,
    bypass: Option<Decision>,
    key: Vec<(String, String)>,
    removed: Vec<String>,
    response: Option<Verdict>,
}

/// A word that never changes, and a sentence.
#[derive(Serialize)]
struct Decision {
    word: &'static str,
    reason: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Verdict {
    stored: bool,
    #[serde(flatten)]
    decision: Decision,
    /// Milliseconds, as all durations.
    #[serde(skip_serializing_if = "Option::is_none")]
    hit_for_miss: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<Object>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools)] // they are independent facts
struct Object {
    lifetime: u64,
    age: u64,
    grace: u64,
    grace_reason: String,
    stale_if_error: u64,
    stale_if_error_reason: String,
    keep: u64,
    must_revalidate: bool,
    always_revalidate: bool,
    removes_set_cookie: bool,
}

impl Document {
    pub(crate) fn new(policy: &Policy, question: &Question) -> Self {
        let received = fields(&question.headers);
        let (forwarded, removed) = forwarded(policy, &received);
        let key = match ask(policy, question, &received) {
            Err(part) => return Self { over_budget: Some(part.into()), ..Self::default() },
            Ok(Err(reason)) => {
                let decision = Decision { word: reason.name(), reason: reason.to_string() };
                return Self { bypass: Some(decision), ..Self::default() };
            }
            Ok(Ok(key)) => key,
        };
        let decide = |answer: &Answer| verdict(policy, question, &forwarded, answer);
        let response = question.response.as_ref().map(decide);
        Self { key, removed, response, ..Self::default() }
    }
}

/// What ghost asks before a lookup: the key of the request, or why it passes the cache.
fn ask(
    policy: &Policy,
    question: &Question,
    received: &Fields,
) -> Result<Result<Lines, BypassReason>, OverBudget> {
    let steps = Steps::new(question.steps);
    let method = question.method.as_bytes();
    let survey = Survey::of(received.iter().map(|(name, value)| (name.as_bytes(), &value[..])));
    if let Some(reason) = policy.bypass_reason(method, survey, received, &steps)? {
        return Ok(Err(reason));
    }
    let (path, query) = target::split(question.target.as_bytes());
    let authority = question.authority.as_bytes();
    let host = Host::parse(authority);
    let request = KeyRequest {
        rule: &question.rule,
        listener: &question.listener,
        https: question.https,
        host: host.as_deref().unwrap_or(authority),
        port: key::port(authority, question.https),
        path,
        query,
        headers: received,
    };
    key::describe(&policy.key, &request, &steps).map(Ok)
}

/// The headers that the origin gets, and the names of those that it doesn't.
fn forwarded(policy: &Policy, received: &Fields) -> (Fields, Vec<String>) {
    let (mut kept, mut removed, mut cookie_field) = (Fields::new(), Vec::new(), None);
    for (name, value) in received {
        match treatment(policy, name.as_bytes()) {
            Treatment::Forward | Treatment::Keyed => kept.push((name.clone(), value.clone())),
            Treatment::Remove => removed.push(name.clone()),
            Treatment::KeyedCookies => cookie_field = Some(name),
        }
    }
    if let Some(name) = cookie_field {
        let keyed = vec![(name.clone(), keyed_cookies(policy, received))];
        if cookies(&keyed).count() < cookies(received).count() {
            removed.push(format!("{name} (cookies outside of the key)"));
        }
        kept.extend(keyed.into_iter().filter(|(_, value)| !value.is_empty()));
    }
    (kept, removed)
}

fn verdict(policy: &Policy, question: &Question, request: &Fields, answer: &Answer) -> Verdict {
    let headers = fields(&answer.headers);
    let now = Timestamp::from_millis(question.now);
    let times = Exchange { requested: now, received: now };
    let facts = StoreRequest::new(policy, b"GET", request).with_response(request, &headers);
    let response = Response { status: answer.status, headers: &headers };
    // 0 is the random number that leaves a lifetime as it is.
    match store::decide(policy, facts, &response, times, 0) {
        Outcome::NotStored(refusal) => Verdict {
            stored: false,
            decision: Decision { word: refusal.reason.name(), reason: refusal.reason.to_string() },
            hit_for_miss: Some(millis(refusal.hit_for_miss)),
            object: None,
        },
        Outcome::Stored(stored) => Verdict {
            stored: true,
            decision: Decision { word: stored.reason.name(), reason: stored.reason.to_string() },
            hit_for_miss: None,
            object: Some(Object::new(&stored, now)),
        },
    }
}

impl Object {
    fn new(stored: &Stored, now: Timestamp) -> Self {
        Self {
            lifetime: millis(stored.lifetime),
            age: millis(now.since(stored.origin)),
            grace: millis(stored.grace),
            grace_reason: stored.grace_reason.to_string(),
            stale_if_error: millis(stored.stale_if_error),
            stale_if_error_reason: stored.stale_if_error_reason.to_string(),
            keep: millis(stored.keep),
            must_revalidate: stored.must_revalidate,
            always_revalidate: stored.always_revalidate,
            removes_set_cookie: stored.removes_set_cookie,
        }
    }
}

fn fields(lines: &Lines) -> Fields {
    lines.iter().map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
