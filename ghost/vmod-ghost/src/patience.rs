//! How long a fetch may take: the limits of its rule, and what Varnish is told of them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ghost_core::Timeouts;

use crate::attempt::Ended;
use crate::sys::{self, Ctx};

/// Seconds that nobody waits for. Varnish counts a wait in milliseconds, in an int.
const FOR_EVER: f64 = 1e6;

/// A wait that ended by so many seconds too early has still ended because time was up.
const TOLERANCE: f64 = 0.005;

/// The limits of one fetch.
#[derive(Clone, Copy, Default)]
pub struct Patience {
    deadline: Option<Instant>,
    each: Option<Duration>,
    said: bool,
}

/// When an attempt has to be over.
#[derive(Clone, Copy)]
pub enum End {
    /// Its rule says so.
    At(Instant),
    /// Its rule says that there is no limit.
    Never,
    /// Its rule says nothing: Varnish's own limits hold.
    Unsaid,
}

impl End {
    /// The moment, if there is one.
    pub fn moment(self) -> Option<Instant> {
        match self {
            Self::At(moment) => Some(moment),
            Self::Never | Self::Unsaid => None,
        }
    }
}

impl Patience {
    /// What a rule says; its deadline counts from the beginning of the fetch, whatever VCL
    /// and earlier tries have taken of it.
    ///
    /// # Safety
    /// `ctx` is the context of a fetch.
    pub unsafe fn of(timeouts: &Timeouts, ctx: Ctx) -> Self {
        let deadline = timeouts.request.map(|limit| {
            // SAFETY: as promised by the caller.
            let passed = now() - unsafe { (*(*ctx).bo).t_first };
            let passed = Duration::try_from_secs_f64(passed).unwrap_or_default();
            Instant::now() + limit.saturating_sub(passed)
        });
        Self { deadline, each: timeouts.backend_request, said: timeouts.explicit }
    }

    /// When an attempt has to be over that begins now.
    pub fn end_of_attempt(&self) -> End {
        let end = self.each.map(|each| Instant::now() + each);
        match end.into_iter().chain(self.deadline).min() {
            Some(moment) => End::At(moment),
            None if self.said => End::Never,
            None => End::Unsaid,
        }
    }

    /// Whether time is up.
    pub fn is_over(&self) -> bool {
        !self.allows(Duration::ZERO)
    }

    /// Whether there is time left after so long.
    pub fn allows(&self, pause: Duration) -> bool {
        self.deadline.is_none_or(|deadline| Instant::now() + pause < deadline)
    }
}

/// Varnish's own time-outs during one attempt, in seconds.
pub struct Waits {
    began: f64,
    limit: Option<f64>,
    before: [f64; 3],
}

impl Waits {
    /// Have no wait of the attempt that begins last beyond its end. Where its rule says when
    /// that is, only VCL can want an answer sooner: the parameters are for all the others.
    /// For a connection they hold in any case.
    ///
    /// # Safety
    /// `ctx` is the context of a fetch.
    pub unsafe fn begin(ctx: Ctx, end: End) -> Self {
        // SAFETY: as promised by the caller.
        unsafe {
            let bo = &mut *(*ctx).bo;
            let before = [bo.connect_timeout, bo.first_byte_timeout, bo.between_bytes_timeout];
            let left = match end {
                End::Unsaid => return Self { began: f64::NAN, limit: None, before },
                End::Never => FOR_EVER,
                End::At(moment) => {
                    let left = moment.saturating_duration_since(Instant::now());
                    left.as_secs_f64().clamp(0.001, FOR_EVER)
                }
            };
            bo.connect_timeout = left.min(in_force(before[0], (*sys::cache_param).connect_timeout));
            bo.first_byte_timeout = left.min(in_force(before[1], FOR_EVER));
            bo.between_bytes_timeout = left.min(in_force(before[2], FOR_EVER));
            Self { began: now(), limit: Some(left), before }
        }
    }

    /// Why the attempt has failed. Varnish does not tell; what was sent, and when, does.
    ///
    /// # Safety
    /// `ctx` is the context of a fetch.
    pub unsafe fn failure(&self, ctx: Ctx, sent: bool) -> Ended {
        // SAFETY: as promised by the caller.
        unsafe {
            if !sent {
                let late = self.limit.is_some_and(|limit| now() - self.began + TOLERANCE >= limit);
                return if late { Ended::Unreachable } else { Ended::Unsent };
            }
            let (bo, usual) = (&*(*ctx).bo, &*sys::cache_param);
            let patience = in_force(bo.first_byte_timeout, usual.first_byte_timeout)
                .min(in_force(bo.between_bytes_timeout, usual.between_bytes_timeout));
            // The last thing that Varnish has noted is that the request was sent.
            let waited = now() - bo.t_prev;
            let late = waited + TOLERANCE.min(patience / 2.0) >= patience;
            if late {
                Ended::TimedOut
            } else {
                Ended::Broken
            }
        }
    }

    /// What was asked for before holds again.
    ///
    /// # Safety
    /// `ctx` is the context of a fetch.
    pub unsafe fn end(self, ctx: Ctx) {
        // SAFETY: as promised by the caller.
        let bo = unsafe { &mut *(*ctx).bo };
        [bo.connect_timeout, bo.first_byte_timeout, bo.between_bytes_timeout] = self.before;
    }
}

/// The time-out that holds: what VCL has set, or else the parameter. None at all is for ever.
fn in_force(set: f64, parameter: f64) -> f64 {
    let unset = if cfg!(vrt19_negative_unset) { set.is_nan() } else { set <= 0.0 };
    let chosen = if unset { parameter } else { set };
    if chosen > 0.0 {
        chosen
    } else {
        f64::INFINITY
    }
}

/// Varnish's clock.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
