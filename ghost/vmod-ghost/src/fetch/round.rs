//! One round over the endpoints of a pool: each of them once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::order::TryOrder;
use crate::varnish::{Attempts, Ended, Native};

/// No further endpoint of a round is tried this long after its first failure, so that a pool
/// of black holes does not hold a worker for the sum of all connect time-outs.
const FAILOVER_BUDGET: Duration = Duration::from_secs(5);

/// What a round has come to so far.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// No endpoint was tried: none is healthy.
    NoneTried,
    /// No endpoint accepted a connection.
    NoneReached,
    /// An endpoint accepted a connection.
    Reached,
}

/// Every endpoint once.
pub struct Round<'e> {
    endpoints: &'e [Arc<Native>],
    order: TryOrder,
    outcome: Outcome,
    failing_since: Option<Instant>,
}

impl<'e> Round<'e> {
    /// A round over these.
    pub fn new(endpoints: &'e [Arc<Native>]) -> Self {
        let order = TryOrder::new(endpoints.len());
        Self { endpoints, order, outcome: Outcome::NoneTried, failing_since: None }
    }

    /// The next healthy endpoint.
    pub fn next(&mut self, attempts: &Attempts<'_, '_>) -> Option<&'e Arc<Native>> {
        let endpoints = self.endpoints;
        let mut left = self.order.by_ref().map(|index| &endpoints[index]);
        left.find(|native| attempts.is_healthy(native))
    }

    /// Record how an attempt ended.
    pub fn note(&mut self, ended: Ended) {
        if !matches!(ended, Ended::Unsent | Ended::Unreachable) {
            self.outcome = Outcome::Reached;
        } else if self.outcome == Outcome::NoneTried {
            self.outcome = Outcome::NoneReached;
        }
    }

    /// What it has come to so far.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Whether refused connections have used up the time for failover.
    pub fn takes_too_long(&mut self) -> bool {
        self.failing_since.get_or_insert_with(Instant::now).elapsed() > FAILOVER_BUDGET
    }
}
