//! varnishd's own time-outs during one attempt.

use std::time::{Duration, Instant};

use super::attempts::Ended;
use crate::varnish::fetch::{now, Fetch};
use crate::varnish::parameters::usual_timeouts;
use crate::varnish::sys;

/// Seconds that stand for no limit. varnishd counts a wait in milliseconds, in an int.
const FOR_EVER: f64 = 1e6;

/// A wait that ended by this many seconds too early has still ended because time was up.
const TOLERANCE: f64 = 0.005;

/// When an attempt has to be over.
#[derive(Clone, Copy)]
pub enum Limit {
    /// At this moment, as its rule sets it.
    At(Instant),
    /// Never, as its rule sets it.
    Never,
    /// Its rule sets no limit: varnishd's own ones hold.
    Usual,
}

impl Limit {
    /// The moment, if there is one.
    pub fn moment(self) -> Option<Instant> {
        match self {
            Self::At(moment) => Some(moment),
            Self::Never | Self::Usual => None,
        }
    }
}

/// The time-outs of one attempt, in seconds, with those that held before it.
pub(super) struct Timeouts {
    began: f64,
    limit: Option<f64>,
    before: [f64; 3],
}

impl Timeouts {
    /// Have no wait of the attempt that begins last beyond its limit. Where its rule sets
    /// one, only VCL can ask for a shorter wait: the parameters are for all other rules. For
    /// a connection they hold in any case.
    pub(super) fn begin(fetch: &mut Fetch<'_>, limit: Limit) -> Self {
        let bo = fetch.raw();
        let before = [bo.connect_timeout, bo.first_byte_timeout, bo.between_bytes_timeout];
        let left = match limit {
            Limit::Usual => return Self { began: f64::NAN, limit: None, before },
            Limit::Never => FOR_EVER,
            Limit::At(moment) => {
                let left = moment.saturating_duration_since(Instant::now());
                left.as_secs_f64().clamp(0.001, FOR_EVER)
            }
        };
        let connect = left.min(in_force(before[0], usual_timeouts().connect));
        let [first_byte, between_bytes] =
            [before[1], before[2]].map(|before| left.min(in_force(before, FOR_EVER)));
        set(fetch, [connect, first_byte, between_bytes]);
        Self { began: now(), limit: Some(left), before }
    }

    /// Why the attempt has failed. varnishd does not tell; what it sent, and when, does.
    pub(super) fn failure(&self, fetch: &Fetch<'_>, sent: bool) -> Ended {
        let over = self.limit.is_some_and(|limit| now() - self.began + TOLERANCE >= limit);
        match (sent, over) {
            (false, false) => return Ended::Unsent,
            (false, true) => return Ended::Unreachable,
            (true, true) => return Ended::TimedOut,
            (true, false) => {}
        }
        let (bo, usual) = (fetch.raw(), usual_timeouts());
        let wait = in_force(bo.first_byte_timeout, usual.first_byte)
            .min(in_force(bo.between_bytes_timeout, usual.between_bytes));
        // The last thing that varnishd has noted is that it sent the request.
        let waited = now() - bo.t_prev;
        let late = waited + TOLERANCE.min(wait / 2.0) >= wait;
        if late {
            Ended::TimedOut
        } else {
            Ended::Broken
        }
    }

    /// The time-outs from before the attempt hold again.
    pub(super) fn end(self, fetch: &mut Fetch<'_>) {
        set(fetch, self.before);
    }
}

fn set(fetch: &mut Fetch<'_>, [connect, first_byte, between_bytes]: [f64; 3]) {
    let bo = fetch.bo();
    // SAFETY: varnishd passed it, and only this thread works on it during the call.
    unsafe {
        (*bo).connect_timeout = connect;
        (*bo).first_byte_timeout = first_byte;
        (*bo).between_bytes_timeout = between_bytes;
    }
}

/// How long an attempt waits for either side of a request's body.
#[derive(Clone, Copy)]
pub(super) struct Waits {
    until: Option<Instant>,
    stall: Option<Duration>,
}

impl Waits {
    /// Of an attempt that begins with this limit. Without one, an endpoint has as much time
    /// for a piece of the request as varnishd gives it for the response.
    pub(super) fn new(fetch: &Fetch<'_>, limit: Limit) -> Self {
        let stall = match limit {
            Limit::Usual => in_force(fetch.raw().first_byte_timeout, usual_timeouts().first_byte),
            Limit::At(_) | Limit::Never => f64::INFINITY,
        };
        Self { until: limit.moment(), stall: Duration::try_from_secs_f64(stall).ok() }
    }

    /// Whether there is nothing to wait for.
    pub(super) fn are_endless(&self) -> bool {
        self.until.is_none() && self.stall.is_none()
    }

    /// When an attempt whose connection is open has to be over. Without a limit, varnishd waits
    /// for the response, and for each piece of its head, as long as an endpoint has for a piece
    /// of the request.
    pub(super) fn end_of_attempt(&self) -> Option<Instant> {
        let stalled =
            self.stall.and_then(|stall| Instant::now().checked_add(stall.saturating_mul(3)));
        stalled.into_iter().chain(self.until).min()
    }

    /// Whether there is time left.
    pub(super) fn leave_time(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }

    /// When an endpoint has to have read something.
    pub(super) fn for_endpoint(&self) -> Option<Instant> {
        let stalled = self.stall.map(|stall| Instant::now() + stall);
        stalled.into_iter().chain(self.until).min()
    }

    /// When a client has to have sent something; None if varnishd gives up earlier by itself.
    pub(super) fn for_client(&self) -> Option<Instant> {
        let idle = Duration::try_from_secs_f64(usual_timeouts().idle).unwrap_or_default();
        self.until.filter(|&until| until.saturating_duration_since(Instant::now()) < idle)
    }

    /// The response has the time that the request has left.
    ///
    /// # Safety
    /// `connection` is valid, and this thread's.
    pub(super) unsafe fn shorten(&self, connection: *mut sys::http_conn) {
        let Some(until) = self.until else { return };
        let left = until.saturating_duration_since(Instant::now()).as_secs_f64().max(0.001);
        // SAFETY: as promised by the caller.
        unsafe {
            (*connection).first_byte_timeout = (*connection).first_byte_timeout.min(left);
            (*connection).between_bytes_timeout = (*connection).between_bytes_timeout.min(left);
        }
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
