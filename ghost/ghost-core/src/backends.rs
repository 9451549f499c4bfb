//! The backends of a rule and the weighted choice between them.
//!
//! In:  the backendRefs of a rule, and a random number for each request.
//! Out: the index of the backend that serves the request.
//!
//! ```
//! use ghost_core::{wire, Action, BackendTarget, Route};
//!
//! let route: wire::Route = wire::decode(
//!     br#"{"namespace": "shop", "name": "tea", "attachments": [], "rules": [{"backends": [
//!         {"service": "shop/tea", "port": 80, "weight": 3},
//!         {"service": "shop/canary", "port": 80}]}]}"#,
//! )?;
//! let route = Route::compile(&route)?;
//! let Action::Backends(backends) = &route.rules()[0].action else { panic!() };
//! assert_eq!(backends.total_weight(), 4);
//! // The lower three quarters of all random numbers pick the first backend.
//! assert_eq!(backends.pick(0), Some(0));
//! assert_eq!(backends.pick(u64::MAX), Some(1));
//! assert_eq!(backends.all()[1].target, BackendTarget::Pool("shop/canary:80".into()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;

use crate::filters::Filters;
use crate::wire;

/// What serves a backend's share of the requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendTarget {
    /// The pool of this name (`namespace/name:port`).
    Pool(Arc<str>),
    /// A response with this status, without a backend.
    Status(u16),
}

/// A compiled backendRef.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Its share of the sum of all weights.
    pub weight: u32,
    /// What serves its share.
    pub target: BackendTarget,
    /// Filters that apply to this backend only.
    pub filters: Filters,
}

/// The backends of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backends {
    all: Box<[Backend]>,
    /// At index i: the sum of the weights of the backends 0 to i.
    cumulative: Box<[u64]>,
}

impl Backends {
    pub(crate) fn new(sources: &[wire::Backend]) -> Self {
        let all: Box<[Backend]> = sources.iter().map(Backend::new).collect();
        let cumulative = all
            .iter()
            .scan(0, |sum, backend| {
                *sum += u64::from(backend.weight);
                Some(*sum)
            })
            .collect();
        Self { all, cumulative }
    }

    /// Every backend, in the order of the rule.
    #[must_use]
    pub fn all(&self) -> &[Backend] {
        &self.all
    }

    /// The sum of all weights.
    #[must_use]
    pub fn total_weight(&self) -> u64 {
        self.cumulative.last().copied().unwrap_or(0)
    }

    /// The index of the backend that `random` selects; the caller draws it uniformly from
    /// all of `u64`. None if no backend has a weight: such a rule responds with 500.
    #[must_use]
    pub fn pick(&self, random: u64) -> Option<usize> {
        // Scale by multiplication: a remainder would favour small numbers.
        let ticket = (u128::from(random) * u128::from(self.total_weight())) >> 64;
        let index = self.cumulative.partition_point(|&sum| u128::from(sum) <= ticket);
        (index < self.all.len()).then_some(index)
    }
}

impl Backend {
    fn new(source: &wire::Backend) -> Self {
        let target = match (&source.service, source.port, source.status) {
            (_, _, Some(status)) => BackendTarget::Status(status),
            (Some(service), Some(port), None) => {
                BackendTarget::Pool(format!("{service}:{port}").into())
            }
            // A reference that names nothing can't be resolved, which is a 500.
            _ => BackendTarget::Status(500),
        };
        Self { weight: source.weight, target, filters: Filters::new(source.filters.as_ref()) }
    }
}
