//! For how long a response is used stale (RFC 9111, section 4.2.4; RFC 5861).

use std::time::Duration;

use super::super::directives::{ResponseDirectives, Seconds};
use super::super::policy::{Grace, Policy};
use super::WindowReason;

/// The windows of staleness of a response, each from the end of its lifetime on.
///
/// A directive that forbids stale use wins over RFC 5861. s-maxage is the exception: an origin
/// that states a window beside it means both, as web frameworks do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// For use while the response is validated.
    pub grace: Duration,
    /// Where `grace` comes from.
    pub grace_reason: WindowReason,
    /// For use if the origin fails.
    pub stale_if_error: Duration,
    /// Where `stale_if_error` comes from.
    pub stale_if_error_reason: WindowReason,
    /// Whether no request may use it stale.
    pub forbidden: bool,
}

/// What else the windows depend on.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // they are independent facts
pub(super) struct Circumstances {
    /// The policy forces the lifetime.
    pub(super) forced: bool,
    /// Each use is validated.
    pub(super) always_revalidate: bool,
    /// The origin states a lifetime of zero.
    pub(super) always_stale: bool,
}

impl Windows {
    pub(super) fn new(
        policy: &Policy,
        directives: &ResponseDirectives,
        circumstances: Circumstances,
    ) -> Self {
        let Circumstances { forced, always_revalidate, always_stale } = circumstances;
        let strictly = strictly_forbidden(directives, always_revalidate);
        // A forced lifetime replaces s-maxage, and what follows from it.
        let by_s_maxage =
            (directives.s_maxage.is_some() && !forced).then_some(WindowReason::SMaxage);
        let window = |stated: Option<Seconds>, default: Duration| {
            if let Some(reason) = strictly {
                return (Duration::ZERO, reason);
            }
            match (stated, by_s_maxage) {
                (Some(stated), _) => (stated.or_zero(), WindowReason::Origin),
                (None, Some(reason)) => (Duration::ZERO, reason),
                (None, None) => (default, WindowReason::Policy),
            }
        };
        let (stated, default) = match policy.grace {
            Grace::Fixed(grace) => (None, grace),
            Grace::Default(grace) => (directives.stale_while_revalidate, grace),
        };
        let (grace, grace_reason) = match window(stated, default) {
            (_, WindowReason::Policy) if always_stale => {
                (Duration::ZERO, WindowReason::AlwaysStale)
            }
            window => window,
        };
        let (stale_if_error, stale_if_error_reason) =
            window(directives.stale_if_error, policy.stale_if_error);
        let forbidden = strictly.or(by_s_maxage).is_some();
        Self { grace, grace_reason, stale_if_error, stale_if_error_reason, forbidden }
    }

    /// For how long after its lifetime the response is of use by itself.
    pub(super) fn usable(&self) -> Duration {
        self.grace.max(self.stale_if_error)
    }

    /// Whether the origin allows stale use by itself.
    pub(super) fn are_stated(&self) -> bool {
        let windows =
            [(self.grace, self.grace_reason), (self.stale_if_error, self.stale_if_error_reason)];
        windows.iter().any(|&(window, reason)| reason == WindowReason::Origin && !window.is_zero())
    }

    /// For how long to keep the object after lifetime and grace. It covers the window for
    /// errors. A response that is `overdue` on arrival is kept as long as any other.
    pub(super) fn keep(&self, policy: &Policy, validator: bool, overdue: Duration) -> Duration {
        let for_validation = if validator { policy.keep + overdue } else { Duration::ZERO };
        for_validation.max(self.stale_if_error.saturating_sub(self.grace))
    }
}

fn strictly_forbidden(
    directives: &ResponseDirectives,
    always_revalidate: bool,
) -> Option<WindowReason> {
    if always_revalidate {
        Some(WindowReason::NoCache)
    } else if directives.must_revalidate {
        Some(WindowReason::MustRevalidate)
    } else {
        directives.proxy_revalidate.then_some(WindowReason::ProxyRevalidate)
    }
}
