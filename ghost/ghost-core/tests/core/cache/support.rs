//! Policies, messages and times for tests.

use ghost_core::cache::{
    store, Exchange, NotStored, Outcome, Policy, Response, StoreRequest, Stored, Survey, Timestamp,
};
use ghost_core::wire;

/// Sun, 06 Nov 1994 08:49:37 GMT.
pub(crate) const NOW: i64 = 784_111_777;
pub(crate) const DATE_NOW: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

pub(crate) fn policy(json: &str) -> Policy {
    Policy::compile(&wire::decode(json.as_bytes()).unwrap()).unwrap()
}

pub(crate) fn policy_error(json: &str) -> String {
    Policy::compile(&wire::decode(json.as_bytes()).unwrap()).unwrap_err().to_string()
}

pub(crate) type Lines = Vec<(String, Vec<u8>)>;

/// Headers from lines such as `Vary: Accept`.
pub(crate) fn lines(text: &[&str]) -> Lines {
    let split = |line: &&str| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_owned(), value.trim().as_bytes().to_vec())
    };
    text.iter().map(split).collect()
}

/// What a proxy finds out about a request with these headers.
pub(crate) fn survey(request: &Lines) -> Survey {
    Survey::of(request.iter().map(|(name, value)| (name.as_bytes(), &value[..])))
}

/// Sent and received at once.
pub(crate) fn at_once() -> Exchange {
    let now = Timestamp::from_seconds(NOW);
    Exchange { requested: now, received: now }
}

/// What the cache decides about a GET request and its response.
pub(crate) fn decide(policy: &Policy, request: &[&str], status: u16, response: &[&str]) -> Outcome {
    let (request, response) = (lines(request), lines(response));
    let facts = StoreRequest::new(policy, b"GET", &request).with_response(&request, &response);
    store::decide(policy, facts, &Response { status, headers: &response }, at_once(), 0)
}

pub(crate) fn stored(policy: &Policy, status: u16, response: &[&str]) -> Stored {
    match decide(policy, &[], status, response) {
        Outcome::Stored(stored) => stored,
        Outcome::NotStored(refusal) => panic!("{status} {response:?}: {refusal:?}"),
    }
}

pub(crate) fn refusal(
    policy: &Policy,
    request: &[&str],
    status: u16,
    response: &[&str],
) -> NotStored {
    match decide(policy, request, status, response) {
        Outcome::NotStored(refusal) => refusal,
        Outcome::Stored(stored) => panic!("{request:?} {status} {response:?}: {stored:?}"),
    }
}

/// The word that says why, of what is stored and of what is not.
pub(crate) fn why(
    policy: &Policy,
    request: &[&str],
    status: u16,
    response: &[&str],
) -> &'static str {
    match decide(policy, request, status, response) {
        Outcome::Stored(stored) => stored.reason.name(),
        Outcome::NotStored(refusal) => refusal.reason.name(),
    }
}
