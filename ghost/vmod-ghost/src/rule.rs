//! The directors of rules.
//!
//! `req.backend_hint` carries one of them from `vcl_recv` to the fetch, where `fetch()`
//! asks it for a destination. It says which match of the rule took the request as well:
//! a rule whose filters replace the matched prefix has one director for each match.

use std::borrow::Cow;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::ptr;
use std::sync::Arc;

use ghost_core::wire::{PathModifier, PathModifierType};
use ghost_core::{Action, BackendTarget, Filters, Match, Rule};

use crate::answers::{self, Answers};
use crate::counters::Counters;
use crate::director::{destroy, kind_of, Director, Kind, Methods, Refused, Vcl};
use crate::fence::fence;
use crate::group::{self, Group};
use crate::pool::Pool;
use crate::random;
use crate::synthetic::{Answer, Synthetic};
use crate::sys::{self, Ctx};
use crate::tasks::address_of;

/// Where a share of a rule's requests goes.
#[derive(Clone)]
pub enum Destination {
    /// To the endpoints of a pool.
    Pool(Arc<Pool>),
    /// To an answer of ghost's own.
    Answer(Arc<Director>),
}

impl Destination {
    fn raw(&self) -> sys::VCL_BACKEND {
        match self {
            Self::Pool(pool) => pool.raw(),
            Self::Answer(director) => director.raw(),
        }
    }
}

/// What serves a rule.
pub struct Service {
    /// One for each backend of the rule; a single one for a rule without.
    pub destinations: Box<[Destination]>,
    /// For a choice that leads nowhere.
    pub answers: Arc<Answers>,
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
pub struct Choice {
    /// The backend of the rule, if it is one of several.
    pub backend: Option<usize>,
    /// The director.
    pub director: sys::VCL_BACKEND,
}

impl Target {
    /// The match that took the request.
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
    pub fn choose(&self) -> Choice {
        let service = &self.service;
        let backend = match &self.rule.action {
            Action::Backends(backends) => backends.pick(random::next()),
            _ => Some(0),
        };
        let director = match backend.and_then(|index| service.destinations.get(index)) {
            None => service.answers.no_backend.raw(),
            Some(Destination::Pool(pool)) if pool.is_empty() => service.answers.no_endpoint.raw(),
            Some(destination) => destination.raw(),
        };
        Choice { backend, director }
    }
}

/// A rule in a VCL: the payload of the router.
pub struct Entry {
    directors: Box<[(Director, Arc<Target>)]>,
    /// Answers preflights, if the rule has CORS.
    preflight: Option<Director>,
    identity: Box<str>,
}

impl Entry {
    /// Add the directors of a rule to a VCL.
    pub fn new(vcl: Vcl, rule: &Arc<Rule>, service: Service) -> Result<Arc<Self>, Refused> {
        let service = Arc::new(service);
        let add = |match_index| {
            let target = Arc::new(Target {
                rule: Arc::clone(rule),
                service: Arc::clone(&service),
                match_index,
            });
            let name = if match_index == 0 {
                format!("rule({})", rule.identity)
            } else {
                format!("rule({}#{match_index})", rule.identity)
            };
            let director = Director::add(vcl, &name, Kept(Arc::clone(&target)))?;
            Ok((director, target))
        };
        let count = if replaces_prefix(rule) { rule.matches.len() } else { 1 };
        let directors = (0..count).map(add).collect::<Result<_, Refused>>()?;
        let preflight = rule.cors.as_ref().map(|_| preflight(vcl, rule)).transpose()?;
        Ok(Arc::new(Self { directors, preflight, identity: identity(rule) }))
    }

    /// The director that answers a preflight.
    pub fn preflight(&self) -> sys::VCL_BACKEND {
        self.preflight.as_ref().map_or(ptr::null(), Director::raw)
    }

    /// The director to use for a request that this match took.
    pub fn director(&self, match_index: usize) -> sys::VCL_BACKEND {
        let found = self.directors.get(match_index).or_else(|| self.directors.first());
        found.map_or(ptr::null(), |(director, _)| director.raw())
    }

    /// Part of every cache key. Where the match decides what the backend is asked for, the
    /// one that led to the director counts too.
    pub fn identity(&self, returned: usize) -> Cow<'_, str> {
        let identity = &*self.identity;
        let is_it = |(director, _): &(Director, _)| address_of(director.raw()) == returned;
        match self.directors.len() {
            0 | 1 => identity.into(),
            _ => match self.directors.iter().position(is_it) {
                Some(index) => format!("{identity}#{index}").into(),
                None => identity.into(),
            },
        }
    }

    /// The rule and its counters.
    pub fn target(&self) -> Option<&Arc<Target>> {
        self.directors.first().map(|(_, target)| target)
    }
}

/// What the director is for, if it is one of a rule.
///
/// # Safety
/// `director` is null or valid.
pub unsafe fn target_of(director: sys::VCL_BACKEND) -> Option<Arc<Target>> {
    // SAFETY: as promised by the caller.
    unsafe { kind_of::<Kept>(director) }.map(|kept| Arc::clone(&kept.0))
}

struct Kept(Arc<Target>);

impl Kind for Kept {
    const METHODS: &'static Methods = &METHODS;
}

impl Group for Kept {
    fn for_each(&self, each: &mut dyn FnMut(sys::VCL_BACKEND)) {
        self.0.service.destinations.iter().for_each(|destination| each(destination.raw()));
    }
}

static METHODS: Methods = Methods(sys::vdi_methods {
    type_: c"ghost-rule".as_ptr(),
    resolve: Some(resolve),
    healthy: Some(group::healthy::<Kept>),
    list: Some(group::list::<Kept>),
    destroy: Some(destroy::<Kept>),
    ..Methods::NONE
});

/// For VCL that does not call `fetch()`: a destination, without filters.
unsafe extern "C" fn resolve(ctx: Ctx, director: sys::VCL_BACKEND) -> sys::VCL_BACKEND {
    fence(ctx, "resolve", ptr::null(), || {
        // SAFETY: Varnish passes a director of this kind.
        let target = unsafe { target_of(director) };
        target.map_or(ptr::null(), |target| target.choose().director)
    })
}

fn preflight(vcl: Vcl, rule: &Arc<Rule>) -> Result<Director, Refused> {
    let (name, rule) = (format!("preflight({})", rule.identity), Arc::clone(rule));
    Synthetic::add(vcl, &name, move |_, bereq| match &rule.cors {
        Some(cors) => answers::preflight(cors, bereq),
        None => Answer::error(500, "the rule has no CORS"),
    })
}

/// Whether it matters which match of the rule took the request.
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

/// Names the rule, and what it means: a rule that takes the place of another one must not
/// find that one's objects. What happens after the cache does not count, nor do weights,
/// but for the backends that have none: what they gave is not served any more.
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
