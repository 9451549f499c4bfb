//! A request on its way to an endpoint, within the limit of an attempt.
//!
//! varnishd connects, writes and reads the head of the response in one call. It writes without a
//! time-out. A [`Deadline`] shuts the connection down; it begins where varnishd is about to write,
//! which ghost learns as the one that hands out the body of the request.

mod deadline;
mod upload;
mod whole;

use super::timeouts::{Limit, Waits};
use crate::varnish::fetch::Fetch;
use deadline::Deadline;
use upload::Upload;

/// Send a request as `send` does, within a limit. Whether there is a response, and whether the
/// limit has ended the attempt.
pub(super) fn within(fetch: &Fetch<'_>, limit: Limit, send: impl FnOnce() -> bool) -> (bool, bool) {
    let waits = Waits::new(fetch, limit);
    if waits.are_endless() {
        return (send(), false);
    }
    if fetch.raw().req.is_null() {
        let deadline = Deadline::new(waits);
        let answered = whole::watched(fetch, &deadline, send);
        return (answered, deadline.end());
    }
    let upload = Upload::begin(fetch, waits);
    (send(), upload.end())
}
