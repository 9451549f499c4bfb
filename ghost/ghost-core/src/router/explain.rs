//! Why a rule serves a request, and why the others don't.

use std::fmt;
use std::mem::discriminant;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::candidates::{path_holds, precedence, Candidate};
use super::preflight::announced;
use super::Router;
use crate::matches::Match;
use crate::request::Request;
use crate::route::Rule;
use crate::wire;

/// What decides about a request.
#[derive(Debug)]
pub struct Explanation<'a, T> {
    /// The listener that takes it.
    pub listener: Option<&'a Arc<wire::Listener>>,
    /// What serves it.
    pub winner: Option<Considered<'a, T>>,
    /// Whether the winner's CORS answers it, as a preflight.
    pub preflight: bool,
    /// What else was looked at, the first to serve first.
    pub runners_up: Vec<RunnerUp<'a, T>>,
}

/// A match that was looked at.
#[derive(Debug)]
pub struct Considered<'a, T> {
    /// The hostname of the route under which it was found.
    pub hostname: String,
    /// The rule.
    pub rule: &'a Arc<Rule>,
    /// Which of the rule's matches.
    pub match_index: usize,
    /// What the caller keeps for this rule.
    pub payload: &'a T,
}

impl<'a, T> Considered<'a, T> {
    /// The match itself.
    #[must_use]
    pub fn matched(&self) -> &'a Match {
        &self.rule.matches[self.match_index]
    }
}

/// A match that was looked at and doesn't serve.
#[derive(Debug)]
pub struct RunnerUp<'a, T> {
    /// What was looked at.
    pub considered: Considered<'a, T>,
    /// Why it doesn't serve.
    pub loss: Loss<'a>,
}

/// Why a match doesn't serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss<'a> {
    /// The request isn't as it asks.
    Unmet(Unmet<'a>),
    /// Another one that holds comes first, by this.
    Outranked(Criterion),
}

/// The first condition of a match that the request doesn't meet.
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

/// What decides between two matches that hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Criterion {
    /// The more specific hostname.
    Hostname,
    /// Exact, then prefix, then regular expression.
    PathType,
    /// The longer prefix.
    PathLength,
    /// The one with a method.
    Method,
    /// The one with more headers.
    Headers,
    /// The one with more query parameters.
    Query,
    /// The older route.
    Created,
    /// The order of `namespace/name`.
    Name,
    /// The order within the route.
    Order,
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hostname => "its hostname is more specific",
            Self::PathType => "an exact path comes before a prefix, and both before a regex",
            Self::PathLength => "its prefix is longer",
            Self::Method => "it asks for a method",
            Self::Headers => "it asks for more headers",
            Self::Query => "it asks for more query parameters",
            Self::Created => "its route is older",
            Self::Name => "its route is first by namespace and name",
            Self::Order => "it stands earlier in the same route",
        })
    }
}

impl<T: Clone> Router<T> {
    /// Everything that was looked at for `request`, in order, and what became of it.
    pub fn explain<'a>(&'a self, request: &impl Request) -> Explanation<'a, T> {
        let preflight = self.find(request).is_some_and(|found| found.preflight);
        match announced(request).filter(|_| preflight) {
            Some(announced) if !self.takes_options(request) => {
                Explanation { preflight, ..self.explain_as_is(&announced) }
            }
            _ => Explanation { preflight, ..self.explain_as_is(request) },
        }
    }

    fn explain_as_is<'a>(&'a self, request: &impl Request) -> Explanation<'a, T> {
        let listener = self.listener(request.socket(), request.host());
        let mut explanation =
            Explanation { listener, winner: None, preflight: false, runners_up: Vec::new() };
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
    fn consider(&mut self, hostname: String, candidate: &'a Candidate<T>, request: &impl Request) {
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

fn unmet<'a>(matched: &'a Match, request: &impl Request) -> Option<Unmet<'a>> {
    if !path_holds(&matched.path, request.path()) {
        return Some(Unmet::Path);
    }
    if let Some(method) = matched.method.as_ref().filter(|_| !matched.method_holds(request)) {
        return Some(Unmet::Method(method));
    }
    let header = matched.headers.iter().find(|header| !header.header_holds(request));
    let query = || matched.query.iter().find(|parameter| !parameter.query_holds(request));
    header.map(|it| Unmet::Header(&it.name)).or_else(|| query().map(|it| Unmet::Query(&it.name)))
}

/// By what `winner` comes before `other`.
fn deciding<T>(winner: &Considered<'_, T>, other: &Considered<'_, T>) -> Criterion {
    let [one, two] = [winner, other].map(|it| precedence(it.rule, it.match_index));
    let [one_kind, two_kind] = [winner, other].map(|it| discriminant(&it.matched().path));
    let differences = [
        (winner.hostname != other.hostname, Criterion::Hostname),
        (one_kind != two_kind, Criterion::PathType),
        (one.path_length != two.path_length, Criterion::PathLength),
        (one.lacks_method != two.lacks_method, Criterion::Method),
        (one.headers != two.headers, Criterion::Headers),
        (one.query != two.query, Criterion::Query),
        (one.created != two.created, Criterion::Created),
        (one.route != two.route, Criterion::Name),
    ];
    let first = differences.into_iter().find(|(differs, _)| *differs);
    first.map_or(Criterion::Order, |(_, criterion)| criterion)
}
