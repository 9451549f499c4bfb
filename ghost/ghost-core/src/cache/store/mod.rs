//! Whether a response is stored, and for how long (RFC 9111, section 3).
//!
//! In:  facts of the request, the head of the response, the policy, and the times.
//! Out: [`Stored`] or [`NotStored`], each with what decided it.
//!
//! Responses are stored for every reason that the RFC allows, with these exceptions: parts
//! (206), 5xx without an explicit lifetime, and what the policy keeps out. The order of the
//! checks decides which reason a user sees.
//!
//! ```
//! use std::time::Duration;
//!
//! use ghost_core::cache::{store, Exchange, Outcome, Policy, Response, StoreRequest, Timestamp};
//! use ghost_core::wire::{self, CachePolicy};
//!
//! let policy: CachePolicy = wire::decode(br#"{"defaultTTL": 60000, "staleIfError": 3600000}"#)?;
//! let policy = Policy::compile(&policy)?;
//! let now = Timestamp::from_seconds(784_111_777);
//! let times = Exchange { requested: now, received: now };
//! let request = StoreRequest::new(&policy, b"GET", &[("Host", &b"tea.example.com"[..])]);
//!
//! let headers = [("Cache-Control", &b"max-age=600"[..]), ("Age", b"60")];
//! let response = Response { status: 200, headers: &headers };
//! let Outcome::Stored(stored) = store::decide(&policy, request, &response, times, 0) else {
//!     panic!("it is stored");
//! };
//! assert_eq!(stored.origin, now.minus(Duration::from_secs(60)));
//! assert_eq!(stored.lifetime, Duration::from_secs(600));
//! assert_eq!(stored.stale_if_error, Duration::from_secs(3600));
//! assert_eq!(stored.reason.name(), "max-age");
//!
//! let headers = [("Cache-Control", &b"private"[..])];
//! let response = Response { status: 200, headers: &headers };
//! let Outcome::NotStored(refusal) = store::decide(&policy, request, &response, times, 0) else {
//!     panic!("it is not stored");
//! };
//! assert_eq!(refusal.reason.to_string(), "the response is private (RFC 9111, section 5.2.2.7)");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod reason;
mod rules;
mod windows;

use std::time::Duration;

pub use reason::{NotStoredReason, WindowReason};
pub use windows::Windows;

use super::age::{self, Exchange};
use super::directives::{effective, RequestDirectives, Restriction};
use super::freshness::{self, jittered, LifetimeReason};
use super::headers::Headers;
use super::key::cookies::cookies;
use super::policy::Policy;
use super::time::Timestamp;
use super::vary;
use crate::wire::SetCookie;

/// After a response that says little about the next one, requests wait for each other again
/// so soon.
pub const SHORT_HIT_FOR_MISS: Duration = Duration::from_secs(1);

/// What storing depends on in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // they are independent facts
pub struct StoreRequest {
    /// Whether responses to its method are stored.
    pub storable_method: bool,
    /// Whether it has `no-store`, and the policy honours that.
    pub no_store: bool,
    /// Whether it has Authorization.
    pub authorization: bool,
    /// Whether the origin got cookies that are not in the key.
    pub unkeyed_cookies: bool,
    /// Whether the origin got several lines of a header that its response varies by.
    pub repeats_vary: bool,
}

impl StoreRequest {
    /// The facts of the request that the origin got.
    pub fn new(policy: &Policy, method: &[u8], request: &impl Headers) -> Self {
        let unkeyed = |(name, _): (&[u8], &[u8])| !policy.key.has_cookie(name);
        Self {
            storable_method: method == b"GET",
            no_store: policy.honours_requests && RequestDirectives::parse(request).no_store,
            authorization: request.has("authorization"),
            unkeyed_cookies: !policy.key.has_header("cookie") && cookies(request).any(unkeyed),
            repeats_vary: false,
        }
    }

    /// The same with what only the response shows.
    #[must_use]
    pub fn with_response(self, request: &impl Headers, response: &impl Headers) -> Self {
        Self { repeats_vary: vary::is_repeated(request, response), ..self }
    }
}

/// The head of a response.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a, H> {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: &'a H,
}

/// Whether a response is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is.
    Stored(Stored),
    /// It isn't.
    NotStored(NotStored),
}

/// How a response is stored. An object is useless after `origin + lifetime + grace + keep`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // they are independent facts
pub struct Stored {
    /// When its origin generated it: its age is the time since then.
    pub origin: Timestamp,
    /// For how long it is fresh, from `origin` on.
    pub lifetime: Duration,
    /// For how long after that it is used while it is validated.
    pub grace: Duration,
    /// Where `grace` comes from.
    pub grace_reason: WindowReason,
    /// For how long after its lifetime it is used if the origin fails.
    pub stale_if_error: Duration,
    /// Where `stale_if_error` comes from.
    pub stale_if_error_reason: WindowReason,
    /// For how long after lifetime and grace it is kept.
    pub keep: Duration,
    /// Whether it must not be used stale, not even if a client allows it.
    pub must_revalidate: bool,
    /// Whether it is validated before each use.
    pub always_revalidate: bool,
    /// Whether it doesn't change while it is fresh (RFC 8246).
    pub immutable: bool,
    /// Whether it has a validator.
    pub validator: bool,
    /// Whether it is stored without Set-Cookie.
    pub removes_set_cookie: bool,
    /// Whether [`withheld_fields`](super::directives::withheld_fields) names fields.
    pub withholds_fields: bool,
    /// What decided its lifetime.
    pub reason: LifetimeReason,
}

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotStored {
    /// Why.
    pub reason: NotStoredReason,
    /// For how long requests for the same key don't wait for each other.
    pub hit_for_miss: Duration,
}

impl NotStored {
    /// For this reason.
    #[must_use]
    pub fn of(policy: &Policy, reason: NotStoredReason) -> Self {
        let limit = if reason.is_of_request() { SHORT_HIT_FOR_MISS } else { Duration::MAX };
        Self { reason, hit_for_miss: policy.hit_for_miss.min(limit) }
    }
}

/// Decide whether to store a response. `random` is any number; it spreads lifetimes by the
/// policy's jitter.
#[must_use]
pub fn decide<H: Headers>(
    policy: &Policy,
    request: StoreRequest,
    response: &Response<'_, H>,
    times: Exchange,
    random: u32,
) -> Outcome {
    match stored(policy, request, response, times, random) {
        Ok(stored) => Outcome::Stored(stored),
        Err(reason) => Outcome::NotStored(NotStored::of(policy, reason)),
    }
}

fn stored<H: Headers>(
    policy: &Policy,
    request: StoreRequest,
    response: &Response<'_, H>,
    times: Exchange,
    random: u32,
) -> Result<Stored, NotStoredReason> {
    let (status, headers) = (response.status, response.headers);
    let (directives, source) = effective(headers);
    rules::status(status, &directives)?;
    rules::directives(policy, request, status, &directives)?;
    rules::content(policy, headers, &directives)?;
    rules::variant(request)?;
    let found = freshness::lifetime(headers, status, (&directives, source), policy, times.received);
    let (full, reason) = found.ok_or_else(|| rules::unstated(status))?;
    let reusable = || freshness::is_reusable(headers, (&directives, source), times.received);
    rules::cookies(policy, request, request.unkeyed_cookies && reusable())?;
    // A policy that forces a lifetime ignores what the origin says about freshness.
    let forced = policy.ttl.is_forced() && !reason.is_explicit();
    let always_revalidate = directives.no_cache == Restriction::Whole && !forced;
    let circumstances = windows::Circumstances {
        forced,
        always_revalidate,
        // Most origins mean by a lifetime of zero that each use is validated.
        always_stale: reason.is_explicit() && full.is_zero(),
    };
    let windows = Windows::new(policy, &directives, circumstances);
    let lifetime = jittered(full, policy.jitter_percent, random);
    let age = age::initial(headers, times);
    let validator = rules::has_validator(headers, times.received);
    let keep = windows.keep(policy, validator, age.saturating_sub(lifetime));
    let kept = validator && !policy.keep.is_zero();
    if full.is_zero() && !always_revalidate {
        rules::zero(reason, kept, &windows)?;
    }
    if !kept && (always_revalidate || age >= lifetime + windows.usable()) {
        return Err(NotStoredReason::Stale);
    }
    Ok(Stored {
        origin: times.received.minus(age),
        lifetime,
        grace: windows.grace,
        grace_reason: windows.grace_reason,
        stale_if_error: windows.stale_if_error,
        stale_if_error_reason: windows.stale_if_error_reason,
        keep,
        must_revalidate: windows.forbidden,
        always_revalidate,
        immutable: directives.immutable,
        validator,
        removes_set_cookie: policy.set_cookie == SetCookie::Remove && headers.has("set-cookie"),
        withholds_fields: [directives.no_cache, directives.private].contains(&Restriction::Fields),
        reason,
    })
}
