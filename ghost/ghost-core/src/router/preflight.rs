//! Which rule answers a preflight.
//!
//! A browser announces a request by an OPTIONS request, which a rule for the announced
//! method would not take. A rule that asks for OPTIONS itself comes first; then the rule
//! that will take what is announced, if it has CORS.

use std::borrow::Cow;

use super::{Found, Router};
use crate::cors::requested_method;
use crate::request::Request;

/// A request with another method.
pub(super) struct Announced<'a, R> {
    pub(super) preflight: &'a R,
    pub(super) method: Cow<'a, [u8]>,
}

impl<R: Request> Request for Announced<'_, R> {
    fn socket(&self) -> &str {
        self.preflight.socket()
    }

    fn host(&self) -> &[u8] {
        self.preflight.host()
    }

    fn method(&self) -> &[u8] {
        &self.method
    }

    fn path(&self) -> &[u8] {
        self.preflight.path()
    }

    fn query(&self) -> Option<&[u8]> {
        self.preflight.query()
    }

    fn header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.preflight.header(name)
    }
}

impl<T: Clone> Router<T> {
    pub(super) fn find_for_options(&self, request: &impl Request) -> Option<Found<'_, T>> {
        let found = self.find_as_is(request);
        let Some(announced) = announced(request) else { return found };
        match found {
            Some(found) if found.rule.cors.is_some() => Some(Found { preflight: true, ..found }),
            Some(found) if found.matched().method.is_some() => Some(found),
            found => match self.find_as_is(&announced) {
                Some(other) if other.rule.cors.is_some() => {
                    Some(Found { preflight: true, ..other })
                }
                _ => found,
            },
        }
    }

    /// Whether a rule with CORS takes a preflight by its own method.
    pub(super) fn takes_options(&self, request: &impl Request) -> bool {
        self.find_as_is(request).is_some_and(|found| found.rule.cors.is_some())
    }
}

/// The request that a preflight announces.
pub(super) fn announced<R: Request>(request: &R) -> Option<Announced<'_, R>> {
    Some(Announced { preflight: request, method: requested_method(request)? })
}
