//! The directors of rules.
//!
//! `req.backend_hint` carries one of them from `vcl_recv` to the fetch, where `fetch()`
//! chooses a destination. It also tells by which match the rule got the request: a rule whose
//! filters replace the matched prefix has one director for each match.

use std::borrow::Cow;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use ghost_core::wire::{PathModifier, PathModifierType};
use ghost_core::{Action, BackendTarget, Filters, Match, Rule};

use super::counters::Counters;
use super::pool::Pool;
use crate::random;
use crate::request::{self, Responses, Synthetic};
use crate::varnish::{Director, Group, Held, Kind, Methods, Refused, Resolve, Response, Vcl};

/// Where a share of a rule's requests goes.
pub enum Destination {
    /// To the endpoints of a pool.
    Pool(Arc<Pool>),
    /// To a response of ghost's own.
    Response(Arc<Director>),
}

impl Destination {
    fn director(&self) -> &Director {
        match self {
            Self::Pool(pool) => pool.director(),
            Self::Response(director) => director,
        }
    }
}

/// What serves a rule.
pub struct Service {
    /// One for each backend of the rule; a single one for a rule without.
    pub destinations: Box<[Destination]>,
    /// For a choice without an endpoint.
    pub responses: Arc<Responses>,
    /// The counters of its route.
    pub counters: Arc<Counters>,
}

/// A rule, by one of its matches.
pub struct Target {
    /// The rule.
    pub rule: Arc<Rule>,
    /// What serves it.
    pub service: Arc<Service>,
    match_index: usize,
}

/// Which director serves a fetch.
pub struct Choice<'t> {
    /// The backend of the rule, if it is one of several.
    pub backend: Option<usize>,
    served_by: ServedBy<'t>,
}

enum ServedBy<'t> {
    Destination(&'t Destination),
    Response(&'t Arc<Director>),
}

impl<'t> Choice<'t> {
    /// The director.
    fn director(&self) -> &'t Director {
        match self.served_by {
            ServedBy::Destination(destination) => destination.director(),
            ServedBy::Response(director) => director,
        }
    }

    /// Whether endpoints serve it, and no response of ghost's own.
    pub fn is_pool(&self) -> bool {
        matches!(self.served_by, ServedBy::Destination(Destination::Pool(_)))
    }

    /// The director, to be returned to varnishd.
    pub fn hold(&self) -> Held {
        match self.served_by {
            ServedBy::Destination(Destination::Pool(pool)) => {
                Held::new(Arc::clone(pool), Pool::director)
            }
            ServedBy::Destination(Destination::Response(director))
            | ServedBy::Response(director) => Held::new(Arc::clone(director), |director| director),
        }
    }
}

impl Target {
    /// The match by which the rule got the request.
    pub fn matched(&self) -> &Match {
        &self.rule.matches[self.match_index]
    }

    /// The filters of a backend of the rule.
    pub fn backend_filters(&self, backend: usize) -> Option<&Filters> {
        match &self.rule.action {
            Action::Backends(backends) => backends.all().get(backend).map(|found| &found.filters),
            _ => None,
        }
    }

    /// Choose a destination, backends by their weight.
    pub fn choose(&self) -> Choice<'_> {
        let service = &self.service;
        let backend = match &self.rule.action {
            Action::Backends(backends) => backends.pick(random::next()),
            _ => Some(0),
        };
        let served_by = match backend.and_then(|index| service.destinations.get(index)) {
            None => ServedBy::Response(&service.responses.no_backend),
            Some(Destination::Pool(pool)) if pool.is_empty() => {
                ServedBy::Response(&service.responses.no_endpoint)
            }
            Some(destination) => ServedBy::Destination(destination),
        };
        Choice { backend, served_by }
    }
}

/// A rule in a VCL: the payload of the router.
pub struct Entry {
    /// For the first match, or for every match.
    first: Director,
    /// For the second match and so on, where the match matters.
    rest: Box<[Director]>,
    target: Arc<Target>,
    /// Responds to preflights, if the rule has CORS.
    preflight: Option<Director>,
    identity: Box<str>,
}

impl Entry {
    /// Add the directors of a rule to a VCL.
    pub fn new(vcl: &Vcl, rule: &Arc<Rule>, service: Service) -> Result<Arc<Self>, Refused> {
        let service = Arc::new(service);
        let target = |match_index| {
            let (rule, service) = (Arc::clone(rule), Arc::clone(&service));
            Arc::new(Target { rule, service, match_index })
        };
        let add = |name: &str, target| Director::add(vcl, name, RuleDirector(target));
        let add_next = |index| add(&format!("rule({}#{index})", rule.identity), target(index));
        let of_rule = target(0);
        let first = add(&format!("rule({})", rule.identity), Arc::clone(&of_rule))?;
        let count = if replaces_prefix(rule) { rule.matches.len() } else { 1 };
        let rest = (1..count).map(add_next).collect::<Result<_, Refused>>()?;
        let preflight = rule.cors.as_ref().map(|_| preflight(vcl, rule)).transpose()?;
        Ok(Arc::new(Self { first, rest, target: of_rule, preflight, identity: identity(rule) }))
    }

    /// The director that responds to a preflight, if the rule has CORS.
    pub fn preflight(&self) -> &Director {
        self.preflight.as_ref().unwrap_or(&self.first)
    }

    /// The director to use for a request that this match got.
    pub fn director(&self, match_index: usize) -> &Director {
        match_index.checked_sub(1).and_then(|index| self.rest.get(index)).unwrap_or(&self.first)
    }

    /// Part of every cache key. Where the match decides what the backend is asked for, the
    /// match is part of it too.
    pub fn identity(&self, match_index: usize) -> Cow<'_, str> {
        if self.rest.is_empty() {
            return (&*self.identity).into();
        }
        format!("{}#{match_index}", self.identity).into()
    }

    /// The rule and its counters.
    pub fn target(&self) -> &Arc<Target> {
        &self.target
    }
}

/// What the director of a rule holds.
pub struct RuleDirector(Arc<Target>);

impl RuleDirector {
    /// The rule, and the match that got the request.
    pub fn target(&self) -> &Arc<Target> {
        &self.0
    }
}

impl Kind for RuleDirector {
    fn methods() -> &'static Methods<Self> {
        static METHODS: Methods<RuleDirector> = Methods::resolving(c"ghost-rule");
        &METHODS
    }
}

impl Group for RuleDirector {
    fn for_each(&self, each: &mut dyn FnMut(&Director)) {
        self.0.service.destinations.iter().for_each(|destination| each(destination.director()));
    }
}

/// For VCL that does not call `fetch()`: a destination, without filters.
impl Resolve for RuleDirector {
    fn resolve(&self) -> Option<&Director> {
        Some(self.0.choose().director())
    }
}

fn preflight(vcl: &Vcl, rule: &Arc<Rule>) -> Result<Director, Refused> {
    let (name, rule) = (format!("preflight({})", rule.identity), Arc::clone(rule));
    Synthetic::add(vcl, &name, move |fetch| match (&rule.cors, fetch.bereq()) {
        (Some(cors), Some(bereq)) => request::preflight(cors, &bereq),
        _ => Response::error(500, "the rule has no CORS"),
    })
}

/// Whether it matters which match of the rule got the request.
fn replaces_prefix(rule: &Rule) -> bool {
    let is_prefix = |path: &Option<PathModifier>| {
        path.as_ref().is_some_and(|path| path.r#type == PathModifierType::Prefix)
    };
    let rewrites = |filters: &Filters| {
        filters.rewrite.as_ref().is_some_and(|rewrite| is_prefix(&rewrite.path))
    };
    rewrites(&rule.filters)
        || match &rule.action {
            Action::Redirect(redirect) => is_prefix(&redirect.path),
            Action::Backends(backends) => backends.all().iter().any(|one| rewrites(&one.filters)),
            Action::Status(_) => false,
        }
}

/// Names the rule, and what it means: a rule that replaces another one must not find the
/// other one's objects in the cache. What happens after the cache does not count. Nor do
/// weights, except that backends without weight are left out: varnishd must not serve what
/// they sent before.
fn identity(rule: &Rule) -> Box<str> {
    let mut meaning =
        format!("{:?}{:?}", rule.matches, (&rule.filters.request, &rule.filters.rewrite));
    // Writing to a String can't fail.
    let _ = match &rule.action {
        Action::Backends(backends) => {
            let mut serving = backends.all().iter().filter(|backend| backend.weight > 0);
            serving.try_for_each(|backend| {
                let target: &BackendTarget = &backend.target;
                write!(meaning, "{target:?}{:?}", backend.filters)
            })
        }
        other => write!(meaning, "{other:?}"),
    };
    let mut hasher = DefaultHasher::new();
    meaning.hash(&mut hasher);
    format!("{}@{:016x}", rule.identity, hasher.finish()).into()
}
