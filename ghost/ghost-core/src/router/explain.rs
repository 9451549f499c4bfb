//! Why a rule serves a request, and why the others do not.
//!
//! In:  a router and a request.
//! Out: an [`Explanation`]: the listener, the winner, and each runner-up with the reason
//!      why it lost.
//!
//! An explanation walks the same index as [`Router::find`] in the same order, so the two
//! never disagree. It covers the candidates that the index holds for the request: rules of
//! other hostnames or of unrelated paths are not listed. It allocates; use it for tools
//! and not for traffic.
//!
//! ```
//! use std::sync::Arc;
//!
//! use ghost_core::{wire, Criterion, Loss, OwnedRequest, Route, Router, Unmet};
//!
//! let mut router = Router::new();
//! router.set_listeners(&[wire::Listener { name: "web".into(), ..Default::default() }]);
//! let route: wire::Route = wire::decode(
//!     br#"{"namespace": "shop", "name": "tea", "attachments": [{"listener": "web"}], "rules": [
//!         {"name": "all"},
//!         {"name": "tea", "matches": [{"path": {"type": "prefix", "value": "/tea"}}]},
//!         {"name": "order", "matches": [{"path": {"type": "exact", "value": "/tea"}, "method": "POST"}]}
//!     ]}"#,
//! )?;
//! router.insert_route(&Arc::new(Route::compile(&route)?), |_| ());
//!
//! let request = OwnedRequest::new("GET", "cafe.example.com", "/tea")?;
//! let explanation = router.explain(&request);
//! assert_eq!(&*explanation.winner.unwrap().rule.identity, "shop/tea/tea");
//!
//! let [order, all] = &explanation.runners_up[..] else { panic!() };
//! assert_eq!(&*order.considered.rule.identity, "shop/tea/order");
//! assert_eq!(order.loss, Loss::Unmet(Unmet::Method("POST")));
//! assert_eq!(order.loss.to_string(), "it takes the method POST only");
//! assert_eq!(&*all.considered.rule.identity, "shop/tea/all");
//! assert_eq!(all.loss, Loss::Outranked(Criterion::PathLength));
//! assert_eq!(all.loss.to_string(), "the winner comes first: its prefix is longer");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::candidates::Candidate;
use super::precedence::{Criterion, Precedence};
use super::Router;
use crate::matches::Match;
use crate::request::{Lookup, Request};
use crate::route::Rule;
use crate::steps::{OverBudget, Steps};
use crate::wire;

/// Which rule serves a request, and why the others do not.
#[derive(Debug)]
#[non_exhaustive]
pub struct Explanation<'a, T> {
    /// The listener that accepts the request.
    pub listener: Option<&'a Arc<wire::Listener>>,
    /// The match that serves it; None is a 404.
    pub winner: Option<Considered<'a, T>>,
    /// Whether the request is a preflight that the winner's CORS filter answers.
    pub preflight: bool,
    /// The part of the request that takes regular expressions too many steps, if one does:
    /// then the request is an error. Winner and runners-up are those without a budget.
    pub over_budget: Option<OverBudget>,
    /// How many [`steps`](crate::steps) the request has left for the questions to a cache policy.
    pub steps_left: u64,
    /// The other candidates, in the order of precedence.
    pub runners_up: Vec<RunnerUp<'a, T>>,
}

/// A match that competed for the request.
#[derive(Debug)]
#[non_exhaustive]
pub struct Considered<'a, T> {
    /// The route's hostname that matched the host.
    pub hostname: String,
    /// The rule.
    pub rule: &'a Arc<Rule>,
    /// Which of the rule's matches.
    pub match_index: usize,
    /// What the caller stored with this rule.
    pub payload: &'a T,
}

impl<'a, T> Considered<'a, T> {
    /// The match itself.
    #[must_use]
    pub fn matched(&self) -> &'a Match {
        &self.rule.matches[self.match_index]
    }
}

/// A match that competed for the request and lost.
#[derive(Debug)]
#[non_exhaustive]
pub struct RunnerUp<'a, T> {
    /// The match.
    pub considered: Considered<'a, T>,
    /// Why it lost.
    pub loss: Loss<'a>,
}

/// Why a match does not serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss<'a> {
    /// The request does not meet this condition.
    Unmet(Unmet<'a>),
    /// It matches too, but the winner ranks higher by this criterion.
    Outranked(Criterion),
}

/// The first condition of a match that a request does not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmet<'a> {
    /// The path.
    Path,
    /// The method must be this.
    Method(&'a str),
    /// The header of this name.
    Header(&'a str),
    /// The query parameter of this name.
    Query(&'a str),
}

impl fmt::Display for Loss<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmet(Unmet::Path) => f.write_str("its path does not match"),
            Self::Unmet(Unmet::Method(method)) => write!(f, "it takes the method {method} only"),
            Self::Unmet(Unmet::Header(name)) => write!(f, "header {name} does not match"),
            Self::Unmet(Unmet::Query(name)) => write!(f, "query parameter {name} does not match"),
            Self::Outranked(criterion) => write!(f, "the winner comes first: {criterion}"),
        }
    }
}

impl<T: Clone> Router<T> {
    /// Explain which rule serves `request`. See the [module](self) for an example.
    pub fn explain<'a>(&'a self, request: &impl Request) -> Explanation<'a, T> {
        let spent = Steps::of_request();
        let found = self.find_within(request, &spent);
        let over_budget = found.as_ref().err().copied();
        let preflight = found.ok().flatten().is_some_and(|found| found.preflight);
        let steps = Steps::unlimited();
        let lookup = if preflight {
            self.preflight_lookup(request, &steps)
        } else {
            Lookup::new(request, &steps)
        };
        let steps_left = spent.left();
        Explanation { preflight, over_budget, steps_left, ..self.explain_lookup(&lookup) }
    }

    fn explain_lookup<'a, R: Request>(&'a self, request: &Lookup<'_, R>) -> Explanation<'a, T> {
        let listener = self.listener(request.socket(), request.host());
        let mut explanation = Explanation {
            listener,
            winner: None,
            preflight: false,
            over_budget: None,
            steps_left: 0,
            runners_up: Vec::new(),
        };
        let hosts = listener.and_then(|listener| self.attached.get(listener.name.as_str()));
        let Some(hosts) = hosts else { return explanation };
        for (tier, paths) in hosts.tiers(request.host()) {
            let _ = paths.walk(request.path(), &mut |candidate| {
                explanation.consider(tier.hostname(), candidate, request);
                ControlFlow::<()>::Continue(())
            });
        }
        explanation
    }
}

impl<'a, T> Explanation<'a, T> {
    fn consider<R: Request>(
        &mut self,
        hostname: String,
        candidate: &'a Candidate<T>,
        request: &Lookup<'_, R>,
    ) {
        let Candidate { rule, match_index, payload } = candidate;
        let considered = Considered { hostname, rule, match_index: *match_index, payload };
        let loss = match (unmet(candidate.matched(), request), &self.winner) {
            (Some(unmet), _) => Loss::Unmet(unmet),
            (None, Some(winner)) => Loss::Outranked(deciding(winner, &considered)),
            (None, None) => {
                self.winner = Some(considered);
                return;
            }
        };
        self.runners_up.push(RunnerUp { considered, loss });
    }
}

fn unmet<'a, R: Request>(matched: &'a Match, request: &Lookup<'_, R>) -> Option<Unmet<'a>> {
    if !matched.path.matches(request.path(), request.steps()) {
        return Some(Unmet::Path);
    }
    if let Some(method) = matched.method.as_ref().filter(|_| !matched.matches_method(request)) {
        return Some(Unmet::Method(method));
    }
    let header = matched.headers.iter().find(|header| !header.matches_header(request));
    let query = || matched.query.iter().find(|parameter| !parameter.matches_query(request));
    header.map(|it| Unmet::Header(&it.name)).or_else(|| query().map(|it| Unmet::Query(&it.name)))
}

/// The criterion by which `winner` ranks before `other`.
fn deciding<T>(winner: &Considered<'_, T>, other: &Considered<'_, T>) -> Criterion {
    if winner.hostname != other.hostname {
        return Criterion::Hostname;
    }
    let [one, two] = [winner, other].map(|it| Precedence::new(it.rule, it.match_index));
    one.deciding(&two)
}
