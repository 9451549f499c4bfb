//! Whether a stored response answers a request (RFC 9111, sections 4 and 5.2.1).
//!
//! In:  the directives of a request, a stored response that fits it, the policy, the time.
//! Out: [`Lookup`]: what to do, and why.
//!
//! Directives of requests are advice: a policy may ignore them, and a client that forces
//! validations beyond its [`Budget`] gets the fresh response that is stored.
//!
//! ```
//! use std::time::Duration;
//!
//! use ghost_core::cache::lookup::{decide, Advice, Budget, Candidate, HitReason, Lookup};
//! use ghost_core::cache::{RequestDirectives, RevalidateReason, Timestamp};
//!
//! let origin = Timestamp::from_seconds(1_000);
//! let object = Candidate::new(origin, Duration::from_secs(60)).with_grace(Duration::from_secs(10));
//! let at = |seconds: i64, asked: &[u8]| {
//!     let asked = RequestDirectives::parse(&[("Cache-Control", asked)]);
//!     let advice = Advice { asked, budget: Budget::Available };
//!     decide(&advice, Some(&object), Timestamp::from_seconds(1_000 + seconds))
//! };
//! assert_eq!(at(30, b""), Lookup::Hit(HitReason::Fresh));
//! assert_eq!(at(30, b"max-age=20"), Lookup::Revalidate(RevalidateReason::MaxAge));
//! assert!(matches!(at(65, b""), Lookup::StaleHit { refresh: true, .. }));
//! assert_eq!(at(75, b""), Lookup::Revalidate(RevalidateReason::Stale));
//! assert_eq!(at(75, b"only-if-cached"), Lookup::GatewayTimeout);
//! ```

use std::fmt;
use std::time::Duration;

use super::directives::RequestDirectives;
use super::store::Stored;
use super::time::Timestamp;

/// What a stored response allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // they are independent facts
pub struct Candidate {
    /// When its origin generated it.
    pub origin: Timestamp,
    /// For how long it is fresh.
    pub lifetime: Duration,
    /// For how long after that it is used while it is validated.
    pub grace: Duration,
    /// Until when it is used if the origin fails.
    pub until_on_error: Timestamp,
    /// Its status.
    pub status: u16,
    /// Whether it must not be used stale.
    pub must_revalidate: bool,
    /// Whether it is validated before each use.
    pub always_revalidate: bool,
    /// Whether it doesn't change while it is fresh.
    pub immutable: bool,
    /// Whether it was invalidated softly: it counts as stale from then on.
    pub invalidated: bool,
}

impl Candidate {
    /// A response without windows of staleness.
    #[must_use]
    pub fn new(origin: Timestamp, lifetime: Duration) -> Self {
        Self {
            origin,
            lifetime,
            grace: Duration::ZERO,
            until_on_error: origin.plus(lifetime),
            status: 200,
            must_revalidate: false,
            always_revalidate: false,
            immutable: false,
            invalidated: false,
        }
    }

    /// The same with this grace.
    #[must_use]
    pub fn with_grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// How old it is.
    #[must_use]
    pub fn age(&self, now: Timestamp) -> Duration {
        now.since(self.origin)
    }

    /// How much longer it is fresh; None if it is stale. A response is stale once its age has
    /// reached its lifetime.
    #[must_use]
    pub fn fresh_for(&self, now: Timestamp) -> Option<Duration> {
        let left = self.lifetime.checked_sub(self.age(now)).filter(|left| !left.is_zero());
        left.filter(|_| !self.invalidated)
    }

    /// For how long it has been stale.
    #[must_use]
    pub fn staleness(&self, now: Timestamp) -> Duration {
        self.age(now).saturating_sub(self.lifetime)
    }

    fn until_in_grace(&self) -> Timestamp {
        self.origin.plus(self.lifetime).plus(self.grace)
    }
}

impl From<&Stored> for Candidate {
    fn from(stored: &Stored) -> Self {
        Self {
            origin: stored.origin,
            lifetime: stored.lifetime,
            grace: stored.grace,
            until_on_error: stored.origin.plus(stored.lifetime).plus(stored.stale_if_error),
            status: 200,
            must_revalidate: stored.must_revalidate,
            always_revalidate: stored.always_revalidate,
            immutable: stored.immutable,
            invalidated: false,
        }
    }
}

/// Whether a status, or the failure that a proxy would report with it, counts as an error of
/// the origin (RFC 5861, section 4).
#[must_use]
pub fn is_error(status: u16) -> bool {
    matches!(status, 500 | 502 | 503 | 504)
}

/// How a stored response takes the place of an error of its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// It is fresh: a client has forced its validation.
    Fresh,
    /// It is stale.
    Stale {
        /// For how long the origin is left alone.
        hold: Duration,
        /// For how long after that it is used while it is validated.
        grace: Duration,
        /// For how long after that it is kept.
        keep: Duration,
    },
}

/// How long an origin is left alone after it has failed.
const HOLD: Duration = Duration::from_secs(5);

/// Decide whether a stored response takes the place of an error of the origin (RFC 5861,
/// section 4). It is gone at `kept_until`. After a refresh in the background, the grace counts
/// as such a window too.
///
/// ```
/// use std::time::Duration;
///
/// use ghost_core::cache::lookup::{on_error, Candidate, InPlace};
/// use ghost_core::cache::Timestamp;
///
/// let at = Timestamp::from_seconds;
/// let object = Candidate::new(at(0), Duration::from_secs(60));
/// let object = Candidate { until_on_error: at(100), ..object };
/// assert_eq!(on_error(&object, false, at(200), at(59)), Some(InPlace::Fresh));
/// let [hold, grace, keep] = [5, 15, 100].map(Duration::from_secs);
/// let stale = Some(InPlace::Stale { hold, grace, keep });
/// assert_eq!(on_error(&object, false, at(200), at(80)), stale);
/// assert_eq!(on_error(&object, false, at(200), at(100)), None);
/// ```
#[must_use]
pub fn on_error(
    candidate: &Candidate,
    background: bool,
    kept_until: Timestamp,
    now: Timestamp,
) -> Option<InPlace> {
    // An error is no answer to another one, and what was purged meanwhile is no answer at all.
    if candidate.status >= 500 || candidate.always_revalidate || kept_until <= now {
        return None;
    }
    if candidate.fresh_for(now).is_some() {
        return Some(InPlace::Fresh);
    }
    let in_grace = if background { candidate.until_in_grace() } else { now };
    let end = candidate.until_on_error.max(in_grace).min(kept_until);
    let left = end.since(now);
    let hold = HOLD.min(left);
    let in_place =
        InPlace::Stale { hold, grace: left.saturating_sub(hold), keep: kept_until.since(end) };
    (end > now).then_some(in_place)
}

/// What becomes of a stored response whose validation got one that isn't stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validated {
    /// The new one says more about the next one: the stored response is removed, and requests
    /// stop to wait for each other.
    Superseded,
    /// It stays, for it is of use to others. They don't wait.
    Kept,
    /// It stays, in case that the origin fails.
    KeptForErrors,
}

/// Decide about a stored response whose validation got one with this `status` that isn't
/// stored. A client must not remove by a request of its own what others get, such as by one
/// that a firewall rejects.
///
/// ```
/// use std::time::Duration;
///
/// use ghost_core::cache::lookup::{on_unstored, Candidate, Validated};
/// use ghost_core::cache::Timestamp;
///
/// let at = Timestamp::from_seconds;
/// let object = Candidate::new(at(0), Duration::from_secs(60)).with_grace(Duration::from_secs(9));
/// let object = Candidate { until_on_error: at(100), ..object };
/// assert_eq!(on_unstored(&object, 200, at(200), at(68)), Validated::Kept);
/// assert_eq!(on_unstored(&object, 403, at(200), at(69)), Validated::KeptForErrors);
/// assert_eq!(on_unstored(&object, 200, at(200), at(69)), Validated::Superseded);
/// ```
#[must_use]
pub fn on_unstored(
    candidate: &Candidate,
    status: u16,
    kept_until: Timestamp,
    now: Timestamp,
) -> Validated {
    let usable = kept_until > now && !candidate.always_revalidate;
    let shared = candidate.fresh_for(now).is_some() || now < candidate.until_in_grace();
    // 404 and 410 speak of the resource, other errors may speak of the request.
    let rejected = status >= 400 && !matches!(status, 404 | 410);
    match () {
        () if usable && shared => Validated::Kept,
        () if usable && rejected && now < candidate.until_on_error => Validated::KeptForErrors,
        () => Validated::Superseded,
    }
}

/// Whether clients may force one more validation of this object and of its route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// They may.
    Available,
    /// They have forced too many.
    Exhausted,
}

/// What a client asks for, as far as the policy honours it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The directives; empty ones if the policy ignores them.
    pub asked: RequestDirectives,
    /// Whether they may force a validation.
    pub budget: Budget,
}

/// What to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Answer with the stored response.
    Hit(HitReason),
    /// Answer with the stored response, although it is stale.
    StaleHit {
        /// Why.
        reason: HitReason,
        /// Whether to validate it in the background.
        refresh: bool,
    },
    /// Validate the stored response.
    Revalidate(RevalidateReason),
    /// Nothing is stored: forward the request.
    Miss,
    /// Nothing that is stored fits, and the client wants nothing else: 504.
    GatewayTimeout,
}

/// Why a stored response is the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HitReason {
    /// It is fresh.
    Fresh,
    /// It is fresh and immutable, so that max-age=0 doesn't count.
    Immutable,
    /// It is fresh, and clients have forced too many validations.
    Budget,
    /// It is stale, within its window of stale-while-revalidate.
    Grace,
    /// It is stale, and the client allows that.
    MaxStale,
}

/// Why a stored response has to be validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevalidateReason {
    /// It is stale.
    Stale,
    /// An invalidation made it stale.
    Invalidated,
    /// It has `no-cache`.
    AlwaysRevalidate,
    /// The request has `no-cache`.
    NoCache,
    /// It is older than the request's max-age.
    MaxAge,
    /// It isn't fresh for as long as the request's min-fresh.
    MinFresh,
}

impl HitReason {
    /// One word, which never changes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Immutable => "immutable",
            Self::Budget => "revalidation-budget",
            Self::Grace => "stale-while-revalidate",
            Self::MaxStale => "max-stale",
        }
    }
}

impl fmt::Display for HitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fresh => "the stored response is fresh (RFC 9111, section 4.2)",
            Self::Immutable => "the stored response is fresh and immutable (RFC 8246, section 2.1)",
            Self::Budget => {
                "the stored response is fresh, and clients have forced more validations than the policy's revalidation allows"
            }
            Self::Grace => "the stored response is stale, and is validated in the background (RFC 5861, section 3)",
            Self::MaxStale => "the stored response is stale, and the request's max-stale allows it (RFC 9111, section 5.2.1.2)",
        })
    }
}

impl RevalidateReason {
    /// One word, which never changes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Invalidated => "invalidated",
            Self::AlwaysRevalidate => "no-cache",
            Self::NoCache => "request-no-cache",
            Self::MaxAge => "request-max-age",
            Self::MinFresh => "request-min-fresh",
        }
    }

    /// Whether the client forces the validation of a fresh response.
    #[must_use]
    pub fn is_forced(self) -> bool {
        matches!(self, Self::NoCache | Self::MaxAge | Self::MinFresh)
    }
}

impl fmt::Display for RevalidateReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stale => "the stored response is stale (RFC 9111, section 4.2)",
            Self::Invalidated => "an invalidation made the stored response stale (RFC 9111, section 4.4)",
            Self::AlwaysRevalidate => "the stored response has no-cache (RFC 9111, section 5.2.2.4)",
            Self::NoCache => "the request has no-cache (RFC 9111, section 5.2.1.4)",
            Self::MaxAge => "the stored response is older than the request's max-age (RFC 9111, section 5.2.1.1)",
            Self::MinFresh => "the stored response isn't fresh for the request's min-fresh (RFC 9111, section 5.2.1.3)",
        })
    }
}

/// Decide what to do with a request for which `candidate` is stored.
#[must_use]
pub fn decide(advice: &Advice, candidate: Option<&Candidate>, now: Timestamp) -> Lookup {
    let found = candidate.map_or(Lookup::Miss, |candidate| answer(advice, candidate, now));
    match found {
        Lookup::Miss | Lookup::Revalidate(_) if advice.asked.only_if_cached => {
            Lookup::GatewayTimeout
        }
        found => found,
    }
}

fn answer(advice: &Advice, candidate: &Candidate, now: Timestamp) -> Lookup {
    if candidate.always_revalidate {
        return Lookup::Revalidate(RevalidateReason::AlwaysRevalidate);
    }
    match candidate.fresh_for(now) {
        Some(left) => fresh(advice, candidate, candidate.age(now), left),
        None => stale(&advice.asked, candidate, now),
    }
}

fn fresh(advice: &Advice, candidate: &Candidate, age: Duration, left: Duration) -> Lookup {
    let asked = &advice.asked;
    let max_age = asked.max_age.map(super::Seconds::or_zero);
    let too_old = max_age.is_some_and(|most| age > most || most.is_zero());
    // A reload sends max-age=0; only no-cache asks for more (RFC 8246, section 2.1).
    if too_old && max_age == Some(Duration::ZERO) && candidate.immutable && !asked.no_cache {
        return Lookup::Hit(HitReason::Immutable);
    }
    let too_short = asked.min_fresh.is_some_and(|least| left < least.or_zero());
    let forced = match () {
        () if asked.no_cache => RevalidateReason::NoCache,
        () if too_old => RevalidateReason::MaxAge,
        () if too_short => RevalidateReason::MinFresh,
        () => return Lookup::Hit(HitReason::Fresh),
    };
    match advice.budget {
        Budget::Available => Lookup::Revalidate(forced),
        Budget::Exhausted => Lookup::Hit(HitReason::Budget),
    }
}

fn stale(asked: &RequestDirectives, candidate: &Candidate, now: Timestamp) -> Lookup {
    let staleness = candidate.staleness(now);
    let too_old = asked.max_age.is_some_and(|most| candidate.age(now) > most.or_zero());
    if !asked.no_cache && asked.min_fresh.is_none() && !too_old {
        let tolerated =
            asked.max_stale.is_some_and(|most| most.is_none_or(|most| staleness <= most.or_zero()));
        if tolerated && !candidate.must_revalidate && !candidate.invalidated {
            return Lookup::StaleHit { reason: HitReason::MaxStale, refresh: false };
        }
        // Without max-stale, max-age asks for a response that isn't stale.
        if staleness < candidate.grace && asked.max_age.is_none() {
            return Lookup::StaleHit { reason: HitReason::Grace, refresh: true };
        }
    }
    Lookup::Revalidate(if candidate.invalidated {
        RevalidateReason::Invalidated
    } else {
        RevalidateReason::Stale
    })
}
