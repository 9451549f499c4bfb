//! Routes, compiled once and shared by `Arc`.

use std::borrow::Cow;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};

use crate::backends::Backends;
use crate::cors::Cors;
use crate::filters::Filters;
use crate::matches::Match;
use crate::pattern::PatternError;
use crate::timing::{Retry, Timeouts};
use crate::wire;

/// What a rule does with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Answer with a redirect.
    Redirect(wire::Redirect),
    /// Answer with a plain status.
    Status(u16),
    /// Answer from one of its backends.
    Backends(Backends),
}

/// One rule of a route.
#[derive(Clone, Debug)]
pub struct Rule {
    /// `namespace/name` of its route.
    pub route: Arc<str>,
    /// `namespace/name/rule`, where the rule is its name or else its index. No two rules
    /// share one: it is part of every cache key.
    pub identity: Box<str>,
    /// Its place in its route.
    pub index: usize,
    /// When its route was created.
    pub created: i64,
    /// It serves where one of these holds.
    pub matches: Box<[Match]>,
    /// What happens to the request and the response.
    pub filters: Filters,
    /// What it does.
    pub action: Action,
    /// How long that may take.
    pub timeouts: Timeouts,
    /// How often it is tried.
    pub retry: Option<Retry>,
    /// Who may read the answers from pages of other origins.
    pub cors: Option<Cors>,
}

impl Rule {
    /// Whether what a backend answers goes out with other headers. CORS does not count: it
    /// tells browsers something, and to those nobody takes it away.
    #[must_use]
    pub fn modifies_responses(&self) -> bool {
        let edits = |filters: &Filters| !filters.response.is_empty();
        edits(&self.filters)
            || matches!(&self.action, Action::Backends(backends)
                if backends.all().iter().any(|backend| edits(&backend.filters)))
    }
}

/// A route with its regular expressions compiled.
#[derive(Clone, Debug)]
pub struct Route {
    key: Arc<str>,
    attachments: Box<[wire::Attachment]>,
    rules: Box<[Arc<Rule>]>,
    fingerprint: u64,
}

/// Why a route can't be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteError {
    /// `namespace/name`.
    pub route: String,
    /// Which rule, from 0.
    pub rule: usize,
    /// Which of its matches, from 0.
    pub r#match: usize,
    /// What is wrong there.
    pub error: PatternError,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { route, rule, r#match, error } = self;
        write!(f, "route {route}, rule {rule}, match {match}: {error}")
    }
}

impl std::error::Error for RouteError {}

impl Route {
    /// Compile a route from the wire.
    ///
    /// # Errors
    /// A regular expression in it is refused.
    pub fn compile(source: &wire::Route) -> Result<Self, RouteError> {
        let key: Arc<str> = format!("{}/{}", source.namespace, source.name).into();
        let rules = source
            .rules
            .iter()
            .enumerate()
            .map(|(index, rule)| {
                let identity = format!("{key}/{}", label(&source.rules, index)).into();
                let matches = compile_matches(rule, index, &key)?;
                Ok(Arc::new(Rule {
                    route: Arc::clone(&key),
                    identity,
                    index,
                    created: source.created,
                    matches,
                    filters: Filters::new(rule.filters.as_ref()),
                    action: Action::new(rule),
                    timeouts: Timeouts::new(rule.timeouts.as_ref()),
                    retry: rule.retry.as_ref().map(Retry::new),
                    cors: rule.cors.as_ref().map(Cors::new),
                }))
            })
            .collect::<Result<_, _>>()?;
        let attachments = source.attachments.clone().into();
        Ok(Self { key, attachments, rules, fingerprint: fingerprint(source) })
    }

    /// `namespace/name`.
    #[must_use]
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// Where it serves.
    #[must_use]
    pub fn attachments(&self) -> &[wire::Attachment] {
        &self.attachments
    }

    /// What it does there.
    #[must_use]
    pub fn rules(&self) -> &[Arc<Rule>] {
        &self.rules
    }

    /// Whether it was compiled from `source`, so that compiling again can be saved.
    #[must_use]
    pub fn is_compiled_from(&self, source: &wire::Route) -> bool {
        self.fingerprint == fingerprint(source)
    }
}

/// What a rule is called in its route: its name, unless that could be another rule's too.
fn label(rules: &[wire::Rule], index: usize) -> Cow<'_, str> {
    match &rules[index].name {
        Some(name)
            if !name.bytes().all(|byte| byte.is_ascii_digit())
                && rules.iter().filter(|rule| rule.name.as_ref() == Some(name)).count() == 1 =>
        {
            name.into()
        }
        _ => index.to_string().into(),
    }
}

fn compile_matches(
    source: &wire::Rule,
    rule: usize,
    route: &str,
) -> Result<Box<[Match]>, RouteError> {
    let compile = |(nth, from)| {
        Match::compile(from).map_err(|error| RouteError {
            route: route.to_owned(),
            rule,
            r#match: nth,
            error,
        })
    };
    source.matches.iter().enumerate().map(compile).collect()
}

impl Action {
    fn new(source: &wire::Rule) -> Self {
        match (&source.redirect, source.status) {
            (Some(redirect), _) => Self::Redirect(redirect.clone()),
            (None, Some(status)) => Self::Status(status),
            (None, None) => Self::Backends(Backends::new(&source.backends)),
        }
    }
}

/// Tells sources apart without keeping them. The key is secret to the process: nobody can
/// prepare two routes that look the same.
fn fingerprint(source: &wire::Route) -> u64 {
    static KEY: OnceLock<std::hash::RandomState> = OnceLock::new();
    KEY.get_or_init(Default::default).hash_one(source)
}
