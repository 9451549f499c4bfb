//! The deadlines of a fetch: how long its rule lets it and each of its attempts take.

use std::time::{Duration, Instant};

use ghost_core::Timeouts;

use crate::varnish::Limit;

/// The deadlines of one fetch.
#[derive(Clone, Copy, Default)]
pub struct Deadlines {
    fetch: Option<Instant>,
    attempt: Option<Duration>,
    /// Whether the rule sets any time-out, be it that there is none.
    set: bool,
}

impl Deadlines {
    /// The deadlines that a rule sets for a fetch that has taken `elapsed` so far.
    pub fn new(timeouts: &Timeouts, elapsed: Duration) -> Self {
        let left = timeouts.request.map(|limit| limit.saturating_sub(elapsed));
        Self {
            fetch: left.map(|left| Instant::now() + left),
            attempt: timeouts.backend_request,
            set: timeouts.explicit,
        }
    }

    /// The limit of an attempt that begins now.
    pub fn limit(&self) -> Limit {
        let attempt = self.attempt.map(|longest| Instant::now() + longest);
        match attempt.into_iter().chain(self.fetch).min() {
            Some(moment) => Limit::At(moment),
            None if self.set => Limit::Never,
            None => Limit::Usual,
        }
    }

    /// Whether the fetch has to end at some time.
    pub fn end(&self) -> bool {
        self.fetch.is_some()
    }

    /// Whether time is up.
    pub fn are_over(&self) -> bool {
        !self.allow(Duration::ZERO)
    }

    /// Whether there is time left after a pause.
    pub fn allow(&self, pause: Duration) -> bool {
        self.fetch.is_none_or(|deadline| Instant::now() + pause < deadline)
    }
}
