//! The directors of rules.
//!
//! `req.backend_hint` carries one of them from `vcl_recv` to the fetch, where `fetch()`
//! chooses a destination. It also tells by which match the rule got the request: a rule whose
//! filters replace the matched prefix has one director for each match.

use std::fmt::Write as _;
use std::sync::Arc;

use ghost_core::shares::{BackendShare, RouteShare, SharedLimits};
use ghost_core::wire::{PathModifier, PathModifierType};
use ghost_core::{Action, BackendTarget, Filters, Match, Rule};

use super::cache_key::CacheKey;
use super::counters::Counters;
use super::pool::Pool;
use crate::random;
use crate::request::{self, Responses, Synthetic};
use crate::varnish::{
    Ask, Director, Group, Held, Kind, Methods, Refused, Resolve, Response, Tally, Vcl,
};

/// Where a share of a rule's requests goes.
pub enum Destination {
    /// To the endpoints of a pool, of which the rule's namespace has a share.
    Pool(Arc<Pool>, Arc<BackendShare>),
    /// To a response of ghost's own.
    Response(Arc<Director>),
}

impl Destination {
    fn director(&self) -> &Director {
        match self {
            Self::Pool(pool, _) => pool.director(),
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
    /// What its route may hold.
    pub share: Arc<RouteShare>,
    /// How much that is, as the newest configuration says.
    pub limits: Arc<SharedLimits>,
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

    /// The share of the pool whose endpoints serve it; None for a response of ghost's own.
    pub fn share(&self) -> Option<&'t Arc<BackendShare>> {
        match self.served_by {
            ServedBy::Destination(Destination::Pool(_, share)) => Some(share),
            _ => None,
        }
    }

    /// The director, to be returned to varnishd.
    pub fn hold(&self) -> Held {
        match self.served_by {
            ServedBy::Destination(Destination::Pool(pool, _)) => {
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
            Some(Destination::Pool(pool, _)) if pool.is_empty() => {
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
    /// For the same matches as the directors.
    cache_keys: Box<[CacheKey]>,
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
        let meaning = meaning(rule);
        let cache_keys = (0..count).map(|index| CacheKey::of(&meaning, index)).collect();
        Ok(Arc::new(Self { first, rest, target: of_rule, preflight, cache_keys }))
    }

    /// The director that responds to a preflight, if the rule has CORS.
    pub fn preflight(&self) -> &Director {
        self.preflight.as_ref().unwrap_or(&self.first)
    }

    /// The director to use for a request that this match got.
    pub fn director(&self, match_index: usize) -> &Director {
        match_index.checked_sub(1).and_then(|index| self.rest.get(index)).unwrap_or(&self.first)
    }

    /// The rule's part of every cache key. Where the match decides what the backend is asked
    /// for, it depends on the match.
    pub fn cache_key(&self, match_index: usize) -> &str {
        self.cache_keys.get(match_index).or(self.cache_keys.first()).map_or("", CacheKey::text)
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
    fn is_healthy(&self, ask: Ask<'_>) -> bool {
        self.0.service.destinations.iter().any(|destination| ask(destination.director()))
    }

    /// The rule holds its destinations for as long as it lives.
    fn tally(&self, ask: Ask<'_>) -> Tally {
        let destinations = &self.0.service.destinations;
        let usable = destinations.iter().filter(|destination| ask(destination.director())).count();
        Tally { usable, all: destinations.len() }
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
fn meaning(rule: &Rule) -> String {
    let (matches, filters) = (&rule.matches, (&rule.filters.request, &rule.filters.rewrite));
    let mut meaning = format!("{}@{matches:?}{filters:?}", rule.identity);
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
    meaning
}
