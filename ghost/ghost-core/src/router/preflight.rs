//! Which rule answers a CORS preflight.
//!
//! A browser announces a request with an OPTIONS request that a rule for the announced
//! method does not match. Therefore:
//!
//! 1. A rule that matches the OPTIONS request and has CORS answers it.
//! 2. A rule that names the method OPTIONS serves it as a plain request.
//! 3. The rule that will serve the announced request answers it, if that rule has CORS.
//! 4. Otherwise the preflight is a plain OPTIONS request.

use super::{Found, Router};
use crate::cors::requested_method;
use crate::request::{Lookup, Request};
use crate::steps::{OverBudget, Steps};

impl<T: Clone> Router<T> {
    pub(super) fn find_for_options(
        &self,
        request: &impl Request,
        steps: &Steps,
    ) -> Result<Option<Found<'_, T>>, OverBudget> {
        let found = self.find_lookup(&Lookup::new(request, steps))?;
        let Some(method) = requested_method(request) else { return Ok(found) };
        Ok(match found {
            Some(found) if found.rule.cors.is_some() => Some(Found { preflight: true, ..found }),
            Some(found) if found.matched().method.is_some() => Some(found),
            found => match self.find_lookup(&Lookup::with_method(request, method, steps))? {
                Some(other) if other.rule.cors.is_some() => {
                    Some(Found { preflight: true, ..other })
                }
                _ => found,
            },
        })
    }

    /// The lookup that finds the rule which answers a preflight.
    pub(super) fn preflight_lookup<'r, R: Request>(
        &self,
        request: &'r R,
        steps: &'r Steps,
    ) -> Lookup<'r, R> {
        let plain = Lookup::new(request, steps);
        let found = self.find_lookup(&plain).ok().flatten();
        match requested_method(request) {
            Some(method) if found.is_none_or(|it| it.rule.cors.is_none()) => {
                Lookup::with_method(request, method, steps)
            }
            _ => plain,
        }
    }
}
