//! An explanation as a JSON document; `_ghost.pyi` describes it.

use std::sync::Arc;

use ghost_core::wire;
use ghost_core::{
    redirect, rewrite, target, Action, BackendTarget, Backends, Considered, Explanation,
    OverBudget, OwnedRequest, Request, RunnerUp,
};
use serde::Serialize;

type Rule = Arc<wire::Rule>;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Document<'a> {
    host: String,
    authority: String,
    target: String,
    listener: Option<&'a wire::Listener>,
    winner: Option<WinningMatch<'a>>,
    preflight: bool,
    over_budget: Option<OverBudgetError>,
    steps_left: u64,
    runners_up: Vec<LosingMatch<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MatchReference<'a> {
    hostname: &'a str,
    route: &'a str,
    identity: &'a str,
    rule_index: usize,
    match_index: usize,
    r#match: &'a wire::Match,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WinningMatch<'a> {
    #[serde(flatten)]
    reference: MatchReference<'a>,
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

/// The error for a request that takes too many steps.
#[derive(Serialize)]
pub(crate) struct OverBudgetError {
    status: u16,
    reason: String,
}

impl From<OverBudget> for OverBudgetError {
    fn from(part: OverBudget) -> Self {
        Self { status: part.status(), reason: part.to_string() }
    }
}

#[derive(Serialize)]
struct LosingMatch<'a> {
    #[serde(flatten)]
    reference: MatchReference<'a>,
    reason: String,
}

impl<'a> Document<'a> {
    pub(crate) fn new(
        explanation: &'a Explanation<'_, Rule>,
        request: &'a OwnedRequest,
        authority: String,
    ) -> Self {
        let winner = explanation.listener.zip(explanation.winner.as_ref());
        Self {
            host: text(request.host()),
            authority,
            target: text(request.target()),
            listener: explanation.listener.map(AsRef::as_ref),
            winner: winner.map(|(listener, it)| WinningMatch::new(listener, it, request)),
            preflight: explanation.preflight,
            over_budget: explanation.over_budget.map(OverBudgetError::from),
            steps_left: explanation.steps_left,
            runners_up: explanation.runners_up.iter().map(LosingMatch::new).collect(),
        }
    }
}

impl<'a> MatchReference<'a> {
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

impl<'a> WinningMatch<'a> {
    fn new(
        listener: &wire::Listener,
        it: &'a Considered<'_, Rule>,
        request: &OwnedRequest,
    ) -> Self {
        let (matched, path, query) = (it.matched(), request.path(), request.query());
        let parts = redirect::RequestParts { listener, matched, host: request.host(), path, query };
        let modifier = it.rule.filters.rewrite.as_ref().and_then(|rewrite| rewrite.path.as_ref());
        Self {
            reference: MatchReference::new(it),
            rule: it.payload,
            backends: match &it.rule.action {
                Action::Backends(backends) => shares(backends),
                _ => Vec::new(),
            },
            location: match &it.rule.action {
                Action::Redirect(redirect) => Some(text(&redirect::location(redirect, &parts))),
                _ => None,
            },
            rewritten: modifier
                .map(|modifier| text(&target::join(rewrite::path(modifier, matched, path), query))),
        }
    }
}

impl<'a> LosingMatch<'a> {
    fn new(it: &'a RunnerUp<'_, Rule>) -> Self {
        Self { reference: MatchReference::new(&it.considered), reason: it.loss.to_string() }
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
