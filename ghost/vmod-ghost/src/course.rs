//! The course of one fetch: which endpoint is asked next, and when it is enough.
//!
//! Where nothing was sent the next endpoint is asked at once, whatever the rule says and for
//! any method. Everything else takes a rule with retries: after one of its codes the request
//! is repeated if its body is still there; after a broken connection or a time-out, when the
//! endpoint may have carried it out, only if that does no harm (an idempotent method).

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ghost_core::{is_idempotent, Retry, Rule};

use crate::attempt::{Attempts, Ended};
use crate::drain;
use crate::http::Http;
use crate::native::Native;
use crate::order::TryOrder;
use crate::patience::Patience;
use crate::pause::Pause;
use crate::random;
use crate::sys::{self, Ctx};
use crate::tasks::FetchTask;

/// No further endpoint of a round is tried this long after its first failure, so that a pool
/// of black holes does not hold a worker for the sum of all connect time-outs.
const FAILOVER_BUDGET: Duration = Duration::from_secs(5);

/// Varnish leaves an endpoint alone for 250 ms after it has refused a connection.
const HOLD_DOWN: Duration = Duration::from_millis(260);

/// Ask one endpoint after the other until one answers as it should, or there is a reason to
/// stop.
///
/// # Safety
/// `ctx` is the context of a fetch task.
pub unsafe fn run(ctx: Ctx, endpoints: &[Arc<Native>], task: &mut FetchTask) -> c_int {
    let target = task.target.clone();
    // SAFETY: as promised by the caller.
    let mut course = unsafe { Course::new(ctx, target.as_ref().map(|target| &*target.rule)) };
    let mut round = Round::new(endpoints);
    loop {
        // SAFETY: as promised by the caller.
        let Some(native) = (unsafe { round.next(ctx) }) else {
            if !course.goes_on_after(&round) {
                break;
            }
            round = Round::new(endpoints);
            continue;
        };
        // Before the attempt: once it has succeeded, nothing that could panic may stand
        // between it and the return, for only `finish` gives the connection back.
        task.serve_from(Arc::clone(native), course.attempts.earlier_bytes());
        match course.ask(native, &mut round) {
            Next::Served => return 0,
            Next::Another => {}
            Next::Nobody => break,
        }
    }
    course.attempts.give_up(course.patience.is_over());
    -1
}

/// What follows an attempt.
enum Next {
    Served,
    Another,
    Nobody,
}

impl Next {
    fn another_if(condition: bool) -> Self {
        if condition {
            Self::Another
        } else {
            Self::Nobody
        }
    }
}

struct Course<'r> {
    ctx: Ctx,
    attempts: Attempts,
    patience: Patience,
    retries: Retries<'r>,
}

impl<'r> Course<'r> {
    /// # Safety
    /// `ctx` is the context of a fetch task, and stays valid.
    unsafe fn new(ctx: Ctx, rule: Option<&'r Rule>) -> Self {
        // SAFETY: as promised by the caller; the busyobj of a fetch task is this thread's.
        unsafe {
            let patience = rule.map(|rule| Patience::of(&rule.timeouts, ctx)).unwrap_or_default();
            let retry = rule.and_then(|rule| rule.retry.as_ref());
            let retries = Retries { retry, patience, made: 0, paused: Duration::ZERO };
            Self { ctx, attempts: Attempts::new(ctx), patience, retries }
        }
    }

    /// Ask one endpoint.
    fn ask(&mut self, native: &Native, round: &mut Round<'_>) -> Next {
        let end = self.patience.end_of_attempt();
        let ended = self.attempts.run(native, end);
        let until = end.moment();
        round.note(ended);
        match ended {
            Ended::Answered(status) => {
                if let Some(pause) = self.retries.instead_of(status, &self.attempts) {
                    self.attempts.discard(native, until);
                    self.retries.wait(pause);
                    return Next::Another;
                }
                if let Some(until) = until {
                    // SAFETY: the response has begun.
                    unsafe { drain::until(self.ctx, until) };
                }
                Next::Served
            }
            Ended::Unsent | Ended::Unreachable => {
                Next::another_if(!round.takes_too_long() && !self.patience.is_over())
            }
            Ended::Broken | Ended::TimedOut => {
                // SAFETY: the context is that of this fetch.
                let harmless = self.attempts.can_repeat() && unsafe { is_harmless(self.ctx) };
                Next::another_if(harmless && self.retries.made_after(Duration::ZERO))
            }
        }
    }

    /// Whether everybody is to be asked again. A retry is used up only by those who can be
    /// reached.
    fn goes_on_after(&mut self, round: &Round<'_>) -> bool {
        match round.outcome {
            Outcome::NobodyAsked => false,
            Outcome::NobodyReached => self.retries.made_after(HOLD_DOWN),
            Outcome::SomebodyReached => true,
        }
    }
}

/// Whether nothing happens twice if the request is carried out twice.
///
/// # Safety
/// `ctx` is the context of a fetch task.
unsafe fn is_harmless(ctx: Ctx) -> bool {
    // SAFETY: as promised by the caller.
    unsafe { Http::new((*(*ctx).bo).bereq) }.is_some_and(|bereq| is_idempotent(bereq.method()))
}

/// What has come of a round so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    NobodyAsked,
    NobodyReached,
    SomebodyReached,
}

/// Every endpoint once.
struct Round<'e> {
    endpoints: &'e [Arc<Native>],
    order: TryOrder,
    outcome: Outcome,
    failing_since: Option<Instant>,
}

impl<'e> Round<'e> {
    fn new(endpoints: &'e [Arc<Native>]) -> Self {
        let order = TryOrder::new(endpoints.len());
        Self { endpoints, order, outcome: Outcome::NobodyAsked, failing_since: None }
    }

    /// The next endpoint to ask.
    ///
    /// # Safety
    /// `ctx` is the context of a task.
    unsafe fn next(&mut self, ctx: Ctx) -> Option<&'e Arc<Native>> {
        // SAFETY: the endpoint is alive, for it is held.
        let is_healthy =
            |native: &Native| unsafe { sys::VRT_Healthy(ctx, native.raw(), ptr::null_mut()) != 0 };
        let endpoints = self.endpoints;
        let mut left = self.order.by_ref().map(|index| &endpoints[index]);
        left.find(|native| is_healthy(native))
    }

    fn note(&mut self, ended: Ended) {
        let refused = matches!(ended, Ended::Unsent | Ended::Unreachable);
        if !refused {
            self.outcome = Outcome::SomebodyReached;
        } else if self.outcome == Outcome::NobodyAsked {
            self.outcome = Outcome::NobodyReached;
        }
    }

    /// Whether so much time has gone into refused connections that no other is to be tried.
    fn takes_too_long(&mut self) -> bool {
        self.failing_since.get_or_insert_with(Instant::now).elapsed() > FAILOVER_BUDGET
    }
}

/// The retries that a rule allows.
struct Retries<'r> {
    retry: Option<&'r Retry>,
    patience: Patience,
    made: u32,
    paused: Duration,
}

impl Retries<'_> {
    /// The pause before another attempt, if there is to be one instead of this answer.
    fn instead_of(&self, status: u16, attempts: &Attempts) -> Option<Pause> {
        self.retry.filter(|retry| retry.retries_status(status) && attempts.can_repeat())?;
        self.pause(Duration::ZERO)
    }

    /// Wait for another attempt, if there is to be one.
    fn made_after(&mut self, at_least: Duration) -> bool {
        let pause = self.pause(at_least);
        pause.map(|pause| self.wait(pause)).is_some()
    }

    fn pause(&self, at_least: Duration) -> Option<Pause> {
        let retry = self.retry.filter(|retry| retry.allows_another(self.made, self.paused))?;
        let length = retry.backoff(self.made, random::next()).max(at_least);
        self.patience.allows(length).then_some(length).and_then(Pause::new)
    }

    fn wait(&mut self, pause: Pause) {
        self.made += 1;
        self.paused += pause.wait();
    }
}
