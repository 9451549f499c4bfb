//! After a fetch: the response filters of the backend.

use std::mem;

use ghost_core::HeaderModifier;

use super::admission;
use super::filters::edit;
use super::task::FetchTask;
use crate::failure::Failure;
use crate::request::Synthetic;
use crate::varnish::{Fetch, Http};

/// Apply the response filters of the chosen backend, and keep ghost's own responses out of
/// the cache. The response of another backend, which user VCL chose for a retry, stays as it
/// is.
pub fn filter_response(fetch: &mut Fetch<'_>) -> Result<(), Failure> {
    admission::go_on(fetch);
    let synthetic = fetch.is_served_by::<Synthetic>();
    if synthetic {
        let cacheable = !fetch.is_uncacheable();
        let memory = fetch.remember::<FetchTask>().ok_or(Failure::OutOfWorkspace)?;
        memory.get_mut().withheld |= cacheable;
        fetch.withhold();
    }
    let withheld = |memory: &mut FetchTask| !synthetic && mem::take(&mut memory.withheld);
    if fetch.recall().is_some_and(|memory| withheld(&mut memory.get_mut())) {
        fetch.set_uncacheable(false);
    }
    let mut beresp = fetch.beresp().ok_or(Failure::WrongSubroutine)?;
    let Some(memory) = fetch.recall::<FetchTask>() else { return Ok(()) };
    if !memory.gave(fetch.responder()) {
        return Ok(());
    }
    let task = memory.get();
    let (Some(target), Some(backend)) = (&task.target, task.backend) else { return Ok(()) };
    if let Some(filters) = target.backend_filters(backend) {
        if fetch.was_not_modified() {
            remove_added(&mut beresp, &filters.response);
        }
        edit(&mut beresp, &filters.response)?;
    }
    Ok(())
}

/// A 304 leads to the stored headers, which have what the filters added to them before.
fn remove_added(http: &mut Http<'_>, edits: &HeaderModifier) {
    for header in &edits.add {
        http.retain(|line| line != header.line().as_bytes());
    }
}
