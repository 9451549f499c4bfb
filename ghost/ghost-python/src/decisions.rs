//! The decisions of the cache, one by one, for tests that compare them with a model of the RFCs.
//!
//! In:  a policy as the wire has it, heads of messages, and times in milliseconds since 1970.
//! Out: what ghost-core decides. Nothing is stored here: objects belong to the caller.

use ghost_core::cache::conditional::{self, Answer};
use ghost_core::cache::invalidation::{self, Base};
use ghost_core::cache::lookup::{self, Advice, Budget, Candidate, Lookup};
use ghost_core::cache::{
    store, vary, BypassReason, Exchange, Headers, Outcome, Policy, RequestDirectives, Response,
    StoreRequest, Stored, Survey, Timestamp,
};
use ghost_core::{wire, Steps};
use pyo3::prelude::*;

use super::value_error;

type Lines = Vec<(String, Vec<u8>)>;

/// The cache of one policy.
#[pyclass(frozen)]
pub(crate) struct CacheDecisions(Policy);

/// A stored response.
#[pyclass(frozen)]
pub(crate) struct CacheObject {
    stored: Stored,
    status: u16,
    request: Lines,
    response: Lines,
    received: Timestamp,
}

#[pymethods]
#[allow(clippy::needless_pass_by_value)] // pyo3 makes values of Python's lists
impl CacheDecisions {
    #[new]
    fn new(policy: &[u8]) -> PyResult<Self> {
        let policy: wire::CachePolicy = wire::decode(policy).map_err(value_error)?;
        Policy::compile(&policy).map(Self).map_err(value_error)
    }

    /// Why a request passes the cache.
    fn bypass(&self, method: &str, request: Lines) -> Option<&'static str> {
        let survey = Survey::of(request.iter().map(|(name, value)| (name.as_bytes(), &value[..])));
        let (method, steps) = (method.as_bytes(), Steps::unlimited());
        let reason = self.0.bypass_reason(method, survey, &request, &steps);
        reason.ok().flatten().map(BypassReason::name)
    }

    /// The object that a response becomes, or why it becomes none.
    fn store(
        &self,
        request: (String, Lines),
        response: (u16, Lines),
        times: (i64, i64),
    ) -> (Option<CacheObject>, &'static str) {
        let ((method, request), (status, response)) = (request, response);
        let (requested, received) = times;
        let received = Timestamp::from_millis(received);
        let times = Exchange { requested: Timestamp::from_millis(requested), received };
        let facts = StoreRequest::new(&self.0, method.as_bytes(), &request);
        let head = Response { status, headers: &response };
        match store::decide(&self.0, facts, &head, times, 0) {
            Outcome::NotStored(refusal) => (None, refusal.reason.name()),
            Outcome::Stored(stored) => {
                let object = CacheObject { stored, status, request, response, received };
                (Some(object), stored.reason.name())
            }
        }
    }

    /// What to do with a request, and the reason's word.
    #[pyo3(signature = (stored, request, now))]
    fn lookup(
        &self,
        stored: Option<&CacheObject>,
        request: Lines,
        now: i64,
    ) -> (&'static str, &'static str) {
        let advice = Advice { asked: self.directives(&request), budget: Budget::Available };
        let candidate = stored.map(|object| Candidate::from(&object.stored));
        match lookup::decide(&advice, candidate.as_ref(), Timestamp::from_millis(now)) {
            Lookup::StaleHit { reason, refresh: true } => ("refresh", reason.name()),
            Lookup::Hit(reason) | Lookup::StaleHit { reason, refresh: false } => {
                ("hit", reason.name())
            }
            Lookup::Revalidate(reason) => ("validate", reason.name()),
            Lookup::Miss => ("miss", "miss"),
            Lookup::GatewayTimeout => ("timeout", "only-if-cached"),
        }
    }

    /// Whether a request has the fields by which the response of an object varies.
    fn fits(&self, stored: &CacheObject, request: Lines) -> bool {
        vary::fields(&stored.response).all(|name| {
            let name = String::from_utf8_lossy(name);
            let (one, other) = (joined(&stored.request, &name), joined(&request, &name));
            if self.0.normalises_vary {
                vary::same_meaning(&name, one.as_deref(), other.as_deref())
            } else {
                one == other
            }
        })
    }
}

impl CacheDecisions {
    fn directives(&self, request: &Lines) -> RequestDirectives {
        if self.0.honours_requests {
            RequestDirectives::parse(request)
        } else {
            RequestDirectives::default()
        }
    }
}

#[pymethods]
#[allow(clippy::needless_pass_by_value)] // as above
impl CacheObject {
    /// Whole seconds of its age.
    fn age(&self, now: i64) -> u64 {
        Candidate::from(&self.stored).age(Timestamp::from_millis(now)).as_secs()
    }

    /// Whether it takes the place of an error of the origin.
    fn answers_error(&self, background: bool, now: i64) -> bool {
        let stored = &self.stored;
        let kept = stored.lifetime + stored.grace + stored.keep;
        let candidate = Candidate { status: self.status, ..Candidate::from(stored) };
        let now = Timestamp::from_millis(now);
        lookup::on_error(&candidate, background, stored.origin.plus(kept), now).is_some()
    }

    /// The status with which it answers a request.
    fn answer(&self, request: Lines) -> u16 {
        match conditional::evaluate(&request, self.status, &self.response, self.received) {
            Answer::NotModified => 304,
            Answer::Whole => self.status,
        }
    }

    /// Its fields after a 304; None if that doesn't speak of it.
    fn freshened(&self, not_modified: Lines) -> Option<Lines> {
        if !conditional::freshens(&not_modified, &self.response) {
            return None;
        }
        let new: Lines =
            not_modified.into_iter().filter(|(name, _)| conditional::updates(name)).collect();
        let kept = self.response.iter().filter(|(name, _)| !new.has(name)).cloned();
        Some(kept.chain(new.iter().cloned()).collect())
    }

    /// Whether a response to HEAD shows that it is outdated.
    fn is_outdated(&self, head: Lines) -> bool {
        conditional::outdates(&head, &self.response)
    }
}

/// The paths that a response makes stale.
#[pyfunction]
pub(crate) fn invalidated_paths(
    method: &str,
    target: (String, String),
    response: (u16, Lines),
) -> Vec<String> {
    let ((host, path), (status, response)) = (target, response);
    let base = Base { https: false, host: host.as_bytes(), port: 80, target: path.as_bytes() };
    let targets = invalidation::targets(method.as_bytes(), &base, status, &response);
    targets.map(|target| String::from_utf8_lossy(&target).into_owned()).collect()
}

/// All lines of a field as one.
fn joined(lines: &Lines, name: &str) -> Option<Vec<u8>> {
    lines.has(name).then(|| lines.values(name).collect::<Vec<_>>().join(&b", "[..]))
}
