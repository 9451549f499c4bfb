//! Bodies of requests that varnishd keeps in memory, so that a fetch can send them again.

use std::ops::RangeInclusive;
use std::time::Instant;

use ghost_core::Rule;

use super::responses::Responses;
use crate::varnish::{keep_body, usual_body_time, Client, Director, Http};

/// The lengths of bodies that ghost keeps.
const SMALL: RangeInclusive<i64> = 1..=64 << 10;

/// Why a body has not arrived.
#[derive(Clone, Copy, Debug)]
pub enum Missing {
    /// The client took too long, or left.
    Client,
    /// The time that the rule has for a request is over.
    Rule,
    /// VCL has restarted the request, or rolled it back, and its body was read before.
    Gone,
}

impl Missing {
    /// What the client gets.
    pub fn response(self, all: &Responses) -> &Director {
        match self {
            Self::Client => &all.body_missing,
            Self::Rule => &all.out_of_time,
            Self::Gone => &all.body_gone,
        }
    }
}

/// Read the body of a request that a fetch may have to send twice, if it is small. It holds a
/// worker meanwhile, so it has the time that the rule has for a request, or some other.
///
/// # Errors
/// Where it does not arrive in time; nothing has been sent to an endpoint then. And where the body
/// was read before: the request would go out without it. User VCL may restart such a request as
/// one that has no body.
pub fn keep(client: &Client<'_>, http: &Http<'_>, rule: &Rule) -> Result<(), Missing> {
    let bodiless = matches!(http.method(), b"GET" | b"HEAD");
    if client.is_top() && !bodiless && http.announces_body() && client.has_lost_body() {
        return Err(Missing::Gone);
    }
    if rule.retry.is_none() {
        return Ok(());
    }
    let length = http.header(b"content-length").and_then(|text| std::str::from_utf8(text).ok());
    let small = length.and_then(|text| text.parse().ok()).is_some_and(|it| SMALL.contains(&it));
    if !small {
        return Ok(());
    }
    let until = Instant::now() + rule.timeouts.request.unwrap_or_else(usual_body_time);
    if keep_body(client, *SMALL.end(), until) {
        return Ok(());
    }
    let over = rule.timeouts.request.is_some() && Instant::now() >= until;
    Err(if over { Missing::Rule } else { Missing::Client })
}
