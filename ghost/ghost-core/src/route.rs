//! Routes and their rules.
//!
//! In:  a [`wire::Route`].
//! Out: a compiled [`Route`], or a [`RouteError`] that names the route, the rule, the match
//!      and the field at fault.
//!
//! A route is compiled once and shared by `Arc` between routers.
//!
//! ```
//! use ghost_core::{wire, Action, Route};
//!
//! let source: wire::Route = wire::decode(
//!     br#"{"namespace": "shop", "name": "tea", "attachments": [],
//!         "rules": [{"name": "moved", "redirect": {"hostname": "tea.example.com"}}, {"status": 404}]}"#,
//! )?;
//! let route = Route::compile(&source)?;
//! assert_eq!(&**route.key(), "shop/tea");
//! assert_eq!(&*route.rules()[0].identity, "shop/tea/moved");
//! assert_eq!(route.rules()[1].action, Action::Status(404));
//! assert!(route.is_compiled_from(&source));
//!
//! let source: wire::Route = wire::decode(
//!     br#"{"namespace": "shop", "name": "bad", "attachments": [],
//!         "rules": [{}, {"matches": [{"path": {"type": "regex", "value": "/(tea"}}]}]}"#,
//! )?;
//! assert_eq!(
//!     Route::compile(&source).unwrap_err().to_string(),
//!     "route shop/bad, rule 1, match 0: path: \
//!      \"/(tea\" is not a regular expression: unclosed group (at byte 1)"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::borrow::Cow;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};

use crate::backends::Backends;
use crate::budget::Budget;
use crate::cache::Attached;
use crate::cors::Cors;
use crate::filters::{Filters, HeaderModifier};
use crate::matches::{Match, MatchError};
use crate::timing::{Retry, Timeouts};
use crate::wire;

/// What a rule does with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Respond with a redirect.
    Redirect(wire::Redirect),
    /// Respond with this status, without a backend.
    Status(u16),
    /// Forward it to one of these backends.
    Backends(Backends),
}

/// A compiled rule of a route.
#[derive(Clone, Debug)]
pub struct Rule {
    /// `namespace/name` of its route.
    pub route: Arc<str>,
    /// `namespace/name/rule`, where `rule` is the name of the rule, or its index if it has no
    /// unambiguous name. It is unique, and so fit to be part of a cache key.
    pub identity: Box<str>,
    /// Its position in the route, from 0.
    pub index: usize,
    /// When the route was created, in seconds since 1970.
    pub created: i64,
    /// Alternatives: the rule matches a request that meets one of them.
    pub matches: Box<[Match]>,
    /// Whether the matches are only what is left of those that the user wrote.
    pub approximate: bool,
    /// What it changes in the request and the response.
    pub filters: Filters,
    /// What it does with the request.
    pub action: Action,
    /// How long that may take.
    pub timeouts: Timeouts,
    /// When to try again.
    pub retry: Option<Retry>,
    /// Which pages of other origins may read the response.
    pub cors: Option<Cors>,
    /// What the cache does with its responses; None leaves that to the listener.
    pub cache: Option<Attached>,
}

impl Rule {
    /// Whether it is invalid, or may be: control planes of earlier versions don't mark what is
    /// left of an invalid match. They give its rule this status in place of backends.
    pub(crate) fn may_be_invalid(&self) -> bool {
        self.approximate || self.action == Action::Status(500)
    }

    /// Whether a filter of the rule or of one of its backends sets or removes a header of
    /// requests, so that the origin doesn't get it as clients sent it.
    #[must_use]
    pub fn replaces_request_header(&self, name: &str) -> bool {
        let replaces = |filters: &Filters| {
            let HeaderModifier { set, remove, .. } = &filters.request;
            set.iter().any(|line| line.name().eq_ignore_ascii_case(name))
                || remove.iter().any(|removed| removed.eq_ignore_ascii_case(name))
        };
        replaces(&self.filters)
            || matches!(&self.action, Action::Backends(backends)
                if backends.all().iter().any(|backend| replaces(&backend.filters)))
    }

    /// Whether the rule or one of its backends changes headers of responses. CORS does not
    /// count: it only adds permissions for browsers.
    #[must_use]
    pub fn modifies_responses(&self) -> bool {
        let modifies = |filters: &Filters| !filters.response.is_empty();
        modifies(&self.filters)
            || matches!(&self.action, Action::Backends(backends)
                if backends.all().iter().any(|backend| modifies(&backend.filters)))
    }
}

/// A compiled route. See the [module](self) for an example.
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
    /// The rule, from 0.
    pub rule: usize,
    /// The match of that rule, from 0.
    pub r#match: usize,
    /// What is wrong with it.
    pub error: MatchError,
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
    /// A regular expression in it is rejected, or all of them exceed the
    /// [`budget`](crate::budget) of a route.
    pub fn compile(source: &wire::Route) -> Result<Self, RouteError> {
        let key: Arc<str> = format!("{}/{}", source.namespace, source.name).into();
        let mut budget = Budget::default();
        let rules = source
            .rules
            .iter()
            .enumerate()
            .map(|(index, rule)| {
                let identity = format!("{key}/{}", label(&source.rules, index)).into();
                let matches = compile_matches(rule, index, &key, &mut budget)?;
                Ok(Arc::new(Rule {
                    route: Arc::clone(&key),
                    identity,
                    index,
                    created: source.created,
                    matches,
                    approximate: rule.approximate,
                    filters: Filters::new(rule.filters.as_ref()),
                    action: Action::new(rule),
                    timeouts: Timeouts::new(rule.timeouts.as_ref()),
                    retry: rule.retry.as_ref().map(Retry::new),
                    cors: rule.cors.as_ref().map(Cors::new),
                    cache: rule.cache.as_ref().map(Attached::new),
                }))
            })
            .collect::<Result<_, _>>()?;
        let attachments = source.attachments.clone().into();
        Ok(Self { key, attachments, rules, fingerprint: fingerprint(source) })
    }

    /// Compile a route, or one that answers 500 in its place if its regular expressions exceed
    /// their [`budget`](crate::budget). The latter hides no other route: it ranks last. The
    /// control plane rejects such routes. One that knows another budget must not stop the
    /// routes that travel beside it.
    ///
    /// # Errors
    /// A regular expression in it is rejected.
    pub fn compile_or_replace(source: &wire::Route) -> Result<Self, RouteError> {
        match Self::compile(source) {
            Err(error) if error.error.error.is_over_budget() => {
                let path =
                    wire::PathMatch { r#type: wire::PathMatchType::Regex, value: ".*".into() };
                let rule = wire::Rule {
                    matches: vec![wire::Match { path, ..wire::Match::default() }],
                    status: Some(500),
                    approximate: true,
                    ..wire::Rule::default()
                };
                let replacement = wire::Route { rules: vec![rule], ..source.clone() };
                Ok(Self { fingerprint: fingerprint(source), ..Self::compile(&replacement)? })
            }
            compiled => compiled,
        }
    }

    /// `namespace/name`.
    #[must_use]
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// The listeners and hostnames that it serves.
    #[must_use]
    pub fn attachments(&self) -> &[wire::Attachment] {
        &self.attachments
    }

    /// Its rules, in the order of the source.
    #[must_use]
    pub fn rules(&self) -> &[Arc<Rule>] {
        &self.rules
    }

    /// Whether it was compiled from an equal source, so that the caller can keep it.
    #[must_use]
    pub fn is_compiled_from(&self, source: &wire::Route) -> bool {
        self.fingerprint == fingerprint(source)
    }
}

/// The last part of a rule's identity: its name, unless another rule could have the same.
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
    budget: &mut Budget,
) -> Result<Box<[Match]>, RouteError> {
    let compile = |(nth, from)| {
        Match::compile_within(from, budget).map_err(|error| RouteError {
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

/// A hash that tells sources apart without keeping them. Its key is random, so that no user
/// can prepare two routes with the same hash.
fn fingerprint(source: &wire::Route) -> u64 {
    static KEY: OnceLock<std::hash::RandomState> = OnceLock::new();
    KEY.get_or_init(Default::default).hash_one(source)
}
