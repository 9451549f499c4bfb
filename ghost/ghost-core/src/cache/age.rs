//! The age of a response (RFC 9111, section 4.2.3).
//!
//! In:  the head of a response, and when it was requested and received.
//! Out: how long ago its origin generated or validated it.
//!
//! ```
//! use std::time::Duration;
//!
//! use ghost_core::cache::age::{self, Exchange};
//! use ghost_core::cache::Timestamp;
//!
//! let times = Exchange {
//!     requested: Timestamp::from_seconds(784_111_780),
//!     received: Timestamp::from_seconds(784_111_782),
//! };
//! let date = ("Date", &b"Sun, 06 Nov 1994 08:49:37 GMT"[..]);
//! assert_eq!(age::initial(&[date], times), Duration::from_secs(5));
//! // What another cache counted, and the delay of the response.
//! assert_eq!(age::initial(&[date, ("Age", b"10")], times), Duration::from_secs(12));
//! ```

use std::time::Duration;

use super::headers::Headers;
use super::syntax::{date, digits};
use super::time::{Timestamp, FOREVER};

/// When a response was requested and received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// When the request was sent.
    pub requested: Timestamp,
    /// When the head of the response arrived.
    pub received: Timestamp,
}

/// The age that a response has when it arrives.
pub fn initial(response: &impl Headers, times: Exchange) -> Duration {
    // A Date has whole seconds: without this cut, every response would be up to a second old.
    let received = Timestamp::from_seconds(times.received.seconds());
    let apparent = received.since(generated(response, times.received));
    let delay = times.received.since(times.requested);
    let corrected = field(response).unwrap_or_default().saturating_add(delay);
    apparent.max(corrected).min(FOREVER)
}

/// When the origin says that it generated the response: its Date, or else its arrival
/// (RFC 9110, section 6.6.1).
pub fn generated(response: &impl Headers, received: Timestamp) -> Timestamp {
    let date = response.only("date").and_then(|text| date::parse(text, received.seconds()));
    date.map_or(received, Timestamp::from_seconds)
}

/// The value of Age: the first member of the first line. A malformed one doesn't count
/// (RFC 9111, section 5.1).
pub fn field(response: &impl Headers) -> Option<Duration> {
    let line = response.values("age").next()?;
    let first = line.split(|&byte| byte == b',').next()?;
    digits(first.trim_ascii()).map(|seconds| Duration::from_secs(seconds).min(FOREVER))
}
