//! The retry loop of a fetch: which endpoint ghost tries next, and when it gives up.
//!
//! Where nothing was sent, ghost tries the next endpoint at once, for any rule and method.
//! Everything else needs a rule with retries. After one of its codes ghost repeats the
//! request if the body is still there. After a broken connection or a time-out the endpoint
//! may have carried the request out, so ghost repeats only idempotent methods, and keeps
//! varnishd from repeating others by itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ghost_core::{is_idempotent, Retry};

use super::deadlines::Deadlines;
use super::pause::Pause;
use super::round::{Outcome, Round};
use super::task::FetchTask;
use crate::cache;
use crate::config::{Counters, Target};
use crate::random;
use crate::varnish::{Attempts, Ended, Fetch, Native};

/// varnishd connects to an endpoint that has refused a connection only after 250 ms.
const HOLD_DOWN: Duration = Duration::from_millis(260);

/// Try one endpoint after the other until one responds as it should, or there is a reason to
/// give up.
pub fn with_retries(fetch: &mut Fetch<'_>, endpoints: &[Arc<Native>]) {
    let target = fetch.recall::<FetchTask>().and_then(|task| task.get().target.clone());
    let elapsed = fetch.elapsed();
    // After a rollback of bereq, it is there again.
    if let Some(mut bereq) = fetch.bereq() {
        cache::conceal(&mut bereq);
    }
    let Some(attempts) = Attempts::new(fetch) else { return };
    let mut loop_ = RetryLoop::new(attempts, target.as_deref(), elapsed);
    if !loop_.run(endpoints) {
        let RetryLoop { attempts, deadlines, .. } = loop_;
        return attempts.give_up(deadlines.are_over());
    }
    // It has no meaning beside other statuses (RFC 9110, section 14.4); varnishd makes it a 503.
    if let Some(mut beresp) = fetch.beresp().filter(|beresp| !matches!(beresp.status(), 206 | 416))
    {
        beresp.remove(b"content-range");
    }
}

/// What follows an attempt.
enum Next {
    Served,
    Another,
    GiveUp,
}

impl Next {
    fn another_if(condition: bool) -> Self {
        if condition {
            Self::Another
        } else {
            Self::GiveUp
        }
    }
}

struct RetryLoop<'f, 'c, 'r> {
    attempts: Attempts<'f, 'c>,
    deadlines: Deadlines,
    retries: Retries<'r>,
}

impl<'f, 'c, 'r> RetryLoop<'f, 'c, 'r> {
    fn new(attempts: Attempts<'f, 'c>, target: Option<&'r Target>, elapsed: Duration) -> Self {
        let deadlines = target.map(|target| Deadlines::new(&target.rule.timeouts, elapsed));
        let deadlines = deadlines.unwrap_or_default();
        let policy = target.and_then(|target| {
            let retry = target.rule.retry.as_ref()?;
            Some((retry, &target.service.counters))
        });
        let began = Instant::now();
        let retries = Retries { policy, deadlines, began, made: 0, paused: Duration::ZERO };
        Self { attempts, deadlines, retries }
    }

    /// Whether an endpoint responded as it should.
    fn run(&mut self, endpoints: &[Arc<Native>]) -> bool {
        let mut round = Round::new(endpoints);
        loop {
            let Some(native) = round.next(&self.attempts) else {
                if !self.starts_another_after(&round) {
                    return false;
                }
                round = Round::new(endpoints);
                continue;
            };
            match self.attempt(native, &mut round) {
                Next::Served => return true,
                Next::Another => {}
                Next::GiveUp => return false,
            }
        }
    }

    /// Try one endpoint.
    fn attempt(&mut self, native: &Arc<Native>, round: &mut Round<'_>) -> Next {
        let limit = self.deadlines.limit();
        let harmless = is_harmless(&self.attempts);
        let ended = self.attempts.run(native, limit, !harmless);
        round.note(ended);
        match ended {
            Ended::Answered(status) => {
                if let Some(pause) = self.retries.instead_of(status, &self.attempts) {
                    self.attempts.discard(limit.moment());
                    self.retries.wait(pause);
                    return Next::Another;
                }
                if let Some(until) = limit.moment() {
                    self.attempts.limit_body(until);
                }
                Next::Served
            }
            Ended::Unsent | Ended::Unreachable => {
                Next::another_if(!round.takes_too_long() && !self.deadlines.are_over())
            }
            Ended::Broken | Ended::TimedOut => {
                let repeatable = harmless && self.attempts.can_repeat();
                Next::another_if(repeatable && self.retries.made_after(Duration::ZERO))
            }
        }
    }

    /// Whether ghost tries all endpoints again. A round uses up a retry only if it reached
    /// none of them.
    fn starts_another_after(&mut self, round: &Round<'_>) -> bool {
        match round.outcome() {
            Outcome::NoneTried => false,
            Outcome::NoneReached => self.retries.made_after(HOLD_DOWN),
            Outcome::Reached => true,
        }
    }
}

/// Whether the effect is the same if endpoints carry the request out twice.
fn is_harmless(attempts: &Attempts<'_, '_>) -> bool {
    is_idempotent(attempts.method())
}

/// The retries that a rule allows.
struct Retries<'r> {
    /// How its rule retries, and the route that it belongs to.
    policy: Option<(&'r Retry, &'r Arc<Counters>)>,
    deadlines: Deadlines,
    began: Instant,
    made: u32,
    paused: Duration,
}

impl Retries<'_> {
    /// The pause before another attempt, if the rule retries after this status.
    fn instead_of(&self, status: u16, attempts: &Attempts<'_, '_>) -> Option<Pause> {
        self.policy.filter(|(retry, _)| retry.retries_status(status) && attempts.can_repeat())?;
        self.pause(Duration::ZERO)
    }

    /// Pause before another attempt, if the rule allows one.
    fn made_after(&mut self, at_least: Duration) -> bool {
        let pause = self.pause(at_least);
        pause.map(|pause| self.wait(pause)).is_some()
    }

    fn pause(&self, at_least: Duration) -> Option<Pause> {
        let (retry, route) = self.policy?;
        let length = retry.backoff(self.made, random::next()).max(at_least);
        let unlimited = (!self.deadlines.end()).then(|| self.began.elapsed());
        let allowed = retry.allows_another(self.made, self.paused, unlimited);
        (allowed && self.deadlines.allow(length)).then(|| Pause::new(length, route)).flatten()
    }

    fn wait(&mut self, pause: Pause) {
        self.made += 1;
        self.paused += pause.wait();
    }
}
