//! The lifetime of a response (RFC 9111, section 4.2).
//!
//! In:  a response, its directives, the policy, and when it was received.
//! Out: for how long it is fresh, and what said so.
//!
//! | First that applies | Where |
//! |---|---|
//! | `statusTTLs` of a policy with `forcedTTL`, then `forcedTTL` | policy |
//! | s-maxage, max-age, Expires | section 4.2.1 |
//! | `statusTTLs` of a policy with `defaultTTL` | policy |
//! | a share of the time since Last-Modified | section 4.2.2, `heuristicPercent` |
//! | `defaultTTL` | policy |
//!
//! A status that may not be stored without an explicit lifetime (section 4.2.2) gets one only
//! from its origin or from `statusTTLs`. The same goes for every 5xx.

use std::fmt;
use std::time::Duration;

use super::age;
use super::directives::{ResponseDirectives, Seconds, Source};
use super::headers::Headers;
use super::policy::{Policy, Ttl};
use super::syntax::date;
use super::time::{Timestamp, FOREVER};

/// A heuristic never makes a response fresh for longer.
const LONGEST_HEURISTIC: Duration = Duration::from_secs(86_400);

/// What decided about a lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifetimeReason {
    /// s-maxage of this field.
    SMaxage(Source),
    /// max-age of this field.
    MaxAge(Source),
    /// The difference between Expires and Date.
    Expires,
    /// The origin states a lifetime that can't be read.
    Invalid,
    /// The time since Last-Modified.
    Heuristic,
    /// `statusTTLs` of the policy.
    StatusTtl,
    /// `defaultTTL` of the policy.
    DefaultTtl,
    /// `forcedTTL` of the policy.
    ForcedTtl,
}

impl LifetimeReason {
    /// One word, which never changes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SMaxage(_) => "s-maxage",
            Self::MaxAge(_) => "max-age",
            Self::Expires => "expires",
            Self::Invalid => "invalid-lifetime",
            Self::Heuristic => "heuristic",
            Self::StatusTtl => "status-ttl",
            Self::DefaultTtl => "default-ttl",
            Self::ForcedTtl => "forced-ttl",
        }
    }

    /// Whether the origin states the lifetime.
    #[must_use]
    pub fn is_explicit(self) -> bool {
        matches!(self, Self::SMaxage(_) | Self::MaxAge(_) | Self::Expires | Self::Invalid)
    }

    /// Whether a field of the policy is the lifetime.
    #[must_use]
    pub fn is_of_policy(self) -> bool {
        matches!(self, Self::StatusTtl | Self::DefaultTtl | Self::ForcedTtl)
    }
}

impl fmt::Display for LifetimeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SMaxage(source) => {
                write!(f, "s-maxage in {} states the lifetime (RFC 9111, section 5.2.2.10)", source.field())
            }
            Self::MaxAge(source) => {
                write!(f, "max-age in {} states the lifetime (RFC 9111, section 5.2.2.1)", source.field())
            }
            Self::Expires => f.write_str("Expires states the lifetime (RFC 9111, section 5.3)"),
            Self::Invalid => f.write_str(
                "the origin states a lifetime that can't be read, so that the response is stale (RFC 9111, section 4.2.1)",
            ),
            Self::Heuristic => f.write_str(
                "the policy's heuristicPercent of the time since Last-Modified is the lifetime (RFC 9111, section 4.2.2)",
            ),
            Self::StatusTtl => f.write_str("the policy's statusTTLs has the status"),
            Self::DefaultTtl => {
                f.write_str("the origin states no lifetime, so that the policy's defaultTTL applies")
            }
            Self::ForcedTtl => f.write_str("the policy's forcedTTL applies"),
        }
    }
}

/// Whether a response with this status may be stored without an explicit lifetime (RFC 9110,
/// section 15.1). 206 isn't here because this cache stores no parts.
#[must_use]
pub fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// The lifetime of a response and what decided it; None if nothing states one.
pub fn lifetime(
    response: &impl Headers,
    status: u16,
    (directives, source): (&ResponseDirectives, Source),
    policy: &Policy,
    received: Timestamp,
) -> Option<(Duration, LifetimeReason)> {
    let of_status = policy.ttl_of_status(status).map(|ttl| (ttl, LifetimeReason::StatusTtl));
    let usual = is_heuristically_cacheable(status) && status < 500;
    if let Ttl::Forced(ttl) = policy.ttl {
        let forced = of_status.or(usual.then_some((ttl, LifetimeReason::ForcedTtl)));
        return forced.or_else(|| explicit(response, directives, source, received));
    }
    explicit(response, directives, source, received).or(of_status).or_else(|| {
        let implied = usual || (directives.public && status < 500);
        let heuristic = || heuristic(response, policy.heuristic_percent, received);
        let default = || (policy.ttl.duration(), LifetimeReason::DefaultTtl);
        implied.then(|| heuristic().unwrap_or_else(default))
    })
}

/// Whether the origin states that the response may be reused for some time.
pub fn is_reusable(
    response: &impl Headers,
    (directives, source): (&ResponseDirectives, Source),
    received: Timestamp,
) -> bool {
    let stated = explicit(response, directives, source, received);
    stated.is_some_and(|(lifetime, _)| !lifetime.is_zero())
}

/// What the origin states (RFC 9111, section 4.2.1).
fn explicit(
    response: &impl Headers,
    directives: &ResponseDirectives,
    source: Source,
    received: Timestamp,
) -> Option<(Duration, LifetimeReason)> {
    if directives.malformed {
        return Some((Duration::ZERO, LifetimeReason::Invalid));
    }
    let stated = match (directives.s_maxage, directives.max_age) {
        (Some(seconds), _) => Some((seconds, LifetimeReason::SMaxage(source))),
        (None, Some(seconds)) => Some((seconds, LifetimeReason::MaxAge(source))),
        (None, None) => None,
    };
    match stated {
        Some((Seconds::Valid(lifetime), reason)) => Some((lifetime, reason)),
        Some((Seconds::Invalid, _)) => Some((Duration::ZERO, LifetimeReason::Invalid)),
        // A targeted field replaces Expires (RFC 9213, section 2.2).
        None if source == Source::CacheControl => expires(response, received),
        None => None,
    }
}

fn expires(response: &impl Headers, received: Timestamp) -> Option<(Duration, LifetimeReason)> {
    if !response.has("expires") {
        return None;
    }
    let text = response.only("expires");
    let Some(expires) = text.and_then(|text| date::parse(text, received.seconds())) else {
        return Some((Duration::ZERO, LifetimeReason::Invalid));
    };
    let lifetime = Timestamp::from_seconds(expires).since(age::generated(response, received));
    Some((lifetime, LifetimeReason::Expires))
}

fn heuristic(
    response: &impl Headers,
    percent: u8,
    received: Timestamp,
) -> Option<(Duration, LifetimeReason)> {
    let modified = response.only("last-modified").filter(|_| percent > 0)?;
    let modified = Timestamp::from_seconds(date::parse(modified, received.seconds())?);
    let unchanged = age::generated(response, received).since(modified);
    let lifetime = unchanged * u32::from(percent) / 100;
    Some((lifetime.min(LONGEST_HEURISTIC), LifetimeReason::Heuristic))
}

/// Shorten a lifetime by up to `percent`, so that objects stored together don't expire
/// together. `random` is any number; 0 changes nothing.
///
/// ```
/// use std::time::Duration;
///
/// use ghost_core::cache::freshness::jittered;
///
/// let hour = Duration::from_secs(3600);
/// assert_eq!(jittered(hour, 10, 0), hour);
/// assert_eq!(jittered(hour, 10, u32::MAX), Duration::from_secs(3240));
/// ```
#[must_use]
pub fn jittered(lifetime: Duration, percent: u8, random: u32) -> Duration {
    let millis = u64::try_from(lifetime.min(FOREVER).as_millis()).unwrap_or(u64::MAX);
    let most = u128::from(millis) * u128::from(percent.min(100)) / 100;
    let cut = most * u128::from(random) / u128::from(u32::MAX);
    let cut = Duration::from_millis(u64::try_from(cut).unwrap_or(u64::MAX));
    lifetime.saturating_sub(cut)
}
