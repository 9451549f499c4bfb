//! The backends of a rule and the weighted choice between them.

use std::sync::Arc;

use crate::filters::Filters;
use crate::wire;

/// Where a backend's share of the requests goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendTarget {
    /// The pool of this name (`namespace/name:port`).
    Pool(Arc<str>),
    /// A plain answer.
    Status(u16),
}

/// One backendRef.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Its share of the sum of all weights.
    pub weight: u32,
    /// Where its share goes.
    pub target: BackendTarget,
    /// Filters of this backend alone.
    pub filters: Filters,
}

/// The backends of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backends {
    all: Box<[Backend]>,
    /// At i the sum of the weights up to and with backend i.
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

    /// The index of the backend that an evenly distributed `random` chooses. None where no
    /// backend has a weight: such a rule answers 500.
    #[must_use]
    pub fn pick(&self, random: u64) -> Option<usize> {
        // Scaled by multiplication, for a remainder would favour small numbers.
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
            // A reference that names nothing can't be resolved.
            _ => BackendTarget::Status(500),
        };
        Self { weight: source.weight, target, filters: Filters::new(source.filters.as_ref()) }
    }
}
