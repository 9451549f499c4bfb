//! Invalidations that the data plane asks for on the reload socket.

use std::time::{Duration, Instant};

use ghost_core::cache::index::{target_of, Condition, Invalidation, Mode, Moment, Scope, Target};
use ghost_core::cache::purge::{Deadline, Done, Named, Purge};
use ghost_core::target::PathRules;
use serde_json::json;

use super::index;
use crate::config::on_own_thread;
use crate::varnish::{self, has_index, Fetch, Response, Unread};

/// The most bytes of a request.
const MOST: usize = 4 << 20;
/// For how long it may arrive.
const ARRIVAL: Duration = Duration::from_secs(10);
/// For how long targets are begun. The data plane waits for longer than that.
const WORK: Duration = Duration::from_secs(20);

/// Carry out what the body of a request asks for, and respond with the number of objects for
/// each target; or with what is wrong, and nothing is carried out.
pub fn respond(fetch: &Fetch<'_>, paths: &PathRules) -> Response {
    match on_read(fetch, paths, |purge| carry_out(&purge)) {
        Ok(_) if !has_index() => error(500, "the index of cached objects is broken"),
        Ok(done) => match done.unfinished() {
            None => page(200, &json!({ "objects": done.objects })),
            Some(reason) => error(503, &reason),
        },
        Err(response) => response,
    }
}

/// Respond with what is wrong with the body of a request, or with no counts; nothing is carried out.
pub fn check(fetch: &Fetch<'_>, paths: &PathRules) -> Response {
    match on_read(fetch, paths, drop) {
        Ok(()) => page(200, &json!({ "objects": [] })),
        Err(response) => response,
    }
}

/// Do something with what the body of a request names. A regular expression takes more stack than
/// a worker of varnishd's has.
pub(super) fn on_read<T: Send>(
    fetch: &Fetch<'_>,
    paths: &PathRules,
    act: impl FnOnce(Purge) -> T + Send,
) -> Result<T, Response> {
    let body = fetch.read_body(MOST, ARRIVAL).map_err(|unread| match unread {
        Unread::TooLarge => error(413, &format!("the body has more than {MOST} bytes")),
        Unread::Missing => error(408, "the body did not arrive in time"),
    })?;
    let done = on_own_thread(|| Ok(Purge::read(&body, paths).map(act)));
    done.map_err(|reason| error(500, &reason))?.map_err(|fault| error(400, &fault.to_string()))
}

/// Carry out an invalidation, for as long as it may take.
pub(super) fn carry_out(purge: &Purge) -> Done {
    let (at, begun) = (index::begin(), Instant::now());
    purge.carry_out(&|| begun.elapsed() >= WORK, |named, scope, deadline| {
        invalidate(named, (purge.mode, scope), at, deadline)
    })
}

fn invalidate(
    named: &Named,
    (mode, scope): (Mode, Scope<'_>),
    at: Moment,
    deadline: &Deadline<'_>,
) -> u64 {
    let reach = |target| varnish::invalidate(&Invalidation { target, scope, mode, at });
    match named {
        Named::Uri { host, target } => index::invalidate_uri(host, target, (mode, scope), at),
        Named::Prefix { host, prefix } => reach(Target::Prefix { host, prefix }),
        Named::Matching { host, pattern } => {
            let prefix = pattern.literal_prefix();
            let matches = |indexed: &[u8]| deadline.matches(pattern, target_of(indexed));
            reach(Target::Matching { host, prefix, matches: Condition(&matches) })
        }
        Named::Host(host) => reach(Target::Host(host)),
        Named::Tags(tags) => {
            let tags: Vec<&[u8]> = tags.iter().map(Vec::as_slice).collect();
            reach(Target::Tags(&tags))
        }
        Named::Route(route) => reach(Target::Route(route)),
        Named::Everything => reach(Target::Everything),
    }
}

pub(super) fn error(status: u16, reason: &str) -> Response {
    page(status, &json!({ "error": reason }))
}

pub(super) fn page(status: u16, content: &serde_json::Value) -> Response {
    Response {
        status,
        headers: vec![("Cache-Control", b"no-store".to_vec())],
        body: content.to_string().into_bytes().into(),
    }
}
