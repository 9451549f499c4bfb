//! An explanation as JSON; `_ghost.pyi` describes it.

use std::sync::Arc;

use ghost_core::wire;
use ghost_core::{
    redirect, rewrite, target, Action, BackendTarget, Backends, Considered, Explanation, Request,
    RunnerUp,
};
use serde::Serialize;

use crate::question::Question;

type Rule = Arc<wire::Rule>;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer<'a> {
    host: String,
    target: String,
    listener: Option<&'a wire::Listener>,
    winner: Option<Winner<'a>>,
    preflight: bool,
    runners_up: Vec<Loser<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Seen<'a> {
    hostname: &'a str,
    route: &'a str,
    identity: &'a str,
    rule_index: usize,
    match_index: usize,
    r#match: &'a wire::Match,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Winner<'a> {
    #[serde(flatten)]
    seen: Seen<'a>,
    rule: &'a wire::Rule,
    backends: Vec<Share>,
    location: Option<String>,
    rewritten: Option<String>,
}

#[derive(Serialize)]
struct Share {
    pool: Option<String>,
    status: Option<u16>,
    weight: u32,
    probability: f64,
}

#[derive(Serialize)]
struct Loser<'a> {
    #[serde(flatten)]
    seen: Seen<'a>,
    reason: String,
}

impl<'a> Answer<'a> {
    pub(crate) fn new(explanation: &'a Explanation<'_, Rule>, question: &'a Question) -> Self {
        let winner = explanation.listener.zip(explanation.winner.as_ref());
        Self {
            host: text(question.host()),
            target: text(question.target()),
            listener: explanation.listener.map(AsRef::as_ref),
            winner: winner.map(|(listener, it)| Winner::new(listener, it, question)),
            preflight: explanation.preflight,
            runners_up: explanation.runners_up.iter().map(Loser::new).collect(),
        }
    }
}

impl<'a> Seen<'a> {
    fn new(it: &'a Considered<'_, Rule>) -> Self {
        Self {
            hostname: &it.hostname,
            route: &it.rule.route,
            identity: &it.rule.identity,
            rule_index: it.rule.index,
            match_index: it.match_index,
            r#match: &it.payload.matches[it.match_index],
        }
    }
}

impl<'a> Winner<'a> {
    fn new(listener: &wire::Listener, it: &'a Considered<'_, Rule>, question: &Question) -> Self {
        let (matched, path, query) = (it.matched(), question.path(), question.query());
        let asked =
            redirect::RequestParts { listener, matched, host: question.host(), path, query };
        let modifier = it.rule.filters.rewrite.as_ref().and_then(|rewrite| rewrite.path.as_ref());
        Self {
            seen: Seen::new(it),
            rule: it.payload,
            backends: match &it.rule.action {
                Action::Backends(backends) => shares(backends),
                _ => Vec::new(),
            },
            location: match &it.rule.action {
                Action::Redirect(redirect) => Some(text(&redirect::location(redirect, &asked))),
                _ => None,
            },
            rewritten: modifier
                .map(|modifier| text(&target::join(rewrite::path(modifier, matched, path), query))),
        }
    }
}

impl<'a> Loser<'a> {
    fn new(it: &'a RunnerUp<'_, Rule>) -> Self {
        Self { seen: Seen::new(&it.considered), reason: it.loss.to_string() }
    }
}

// Weights are at most a million each: a float holds their sum exactly.
#[allow(clippy::cast_precision_loss)]
fn shares(backends: &Backends) -> Vec<Share> {
    let total = backends.total_weight().max(1) as f64;
    let share = |backend: &ghost_core::Backend| {
        let (pool, status) = match &backend.target {
            BackendTarget::Pool(name) => (Some(name.to_string()), None),
            BackendTarget::Status(status) => (None, Some(*status)),
        };
        let probability = f64::from(backend.weight) / total;
        Share { pool, status, weight: backend.weight, probability }
    };
    backends.all().iter().map(share).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
