//! Whether a fetch gets a worker and a connection, in the shares of its route and its backend.
//!
//! A thread of varnishd's runs the fetch already: one that gets none is answered at once. The
//! client that waits for a fetch has held its worker from the beginning, or clients would hold
//! all of a share and leave nothing to their fetches.

use std::sync::Arc;

use ghost_core::shares::{BackendShare, Exhausted, Limits, RouteShare};

use super::task::FetchTask;
use crate::config::{reject, Instance, Snapshot, Target};
use crate::request::{ClientTask, Responses, Synthetic};
use crate::varnish::{Backend, Fetch, Held};

/// Its client's thread, and the one of its fetch. Fetches in the background leave as many: with
/// the last ones they would have responses from the cache rejected.
const WORKERS_OF_A_REQUEST: u32 = 2;

/// Have a fetch for a rule hold what it needs to go to this backend.
///
/// # Errors
/// The response in its stead, where a share has nothing left. The rejection is reported.
pub fn admit(
    fetch: &Fetch<'_>,
    task: &mut FetchTask,
    target: &Target,
    backend: &Arc<BackendShare>,
) -> Result<(), Held> {
    let limits = target.service.limits.get();
    hold(fetch, task, &target.service.share, backend, &limits).map_err(|exhausted| {
        fetch.decline_body();
        reject(exhausted, &target.rule.route, &target.service.counters);
        overloaded(&target.service.responses, exhausted)
    })
}

fn hold(
    fetch: &Fetch<'_>,
    task: &mut FetchTask,
    route: &Arc<RouteShare>,
    backend: &Arc<BackendShare>,
    limits: &Limits,
) -> Result<(), Exhausted> {
    let at = fetch.place();
    // A pipe runs on the thread of its client, and none waits for a fetch in the background.
    let waiting = if is_piped(fetch) || fetch.is_background() { 1 } else { 2 };
    // A try before this one gives back what it held, before the new one asks.
    (task.connection, task.web_socket) = (None, None);
    if fetch.is_background() {
        task.worker = None;
        task.worker = Some(route.hold_beside(at, limits, 1, WORKERS_OF_A_REQUEST)?);
    }
    if is_piped(fetch) {
        keep_one(fetch);
    }
    if is_piped(fetch) || task.upgrade.is_some() {
        task.web_socket = Some(route.hold_websocket(at, limits)?);
    }
    task.connection = Some(route.connect(backend, at, limits, waiting)?);
    Ok(())
}

/// A pipe needs no worker but its client's.
fn keep_one(pipe: &Fetch<'_>) {
    let Some(client) = pipe.recall::<ClientTask>() else { return };
    let mut client = client.get_mut();
    client.rejection = None;
    if let Some(held) = &mut client.workers {
        held.keep(1);
    }
}

/// Once there is a response its client lets go of the worker that it has held for the fetch,
/// which goes on for as long as the body takes.
pub fn go_on(fetch: &Fetch<'_>) {
    let Some(memory) = fetch.recall::<FetchTask>() else { return };
    let mut task = memory.get_mut();
    if task.worker.is_none() && task.connection.is_some() {
        let share = task.target.as_ref().map(|target| Arc::clone(&target.service.share));
        task.worker = share.map(|share| share.hold_anyway(fetch.place()));
    }
}

/// The same for a backend that user VCL declares: all of these have one share.
pub fn admit_foreign(
    fetch: &Fetch<'_>,
    instance: &Instance,
    task: &mut FetchTask,
    backend: Backend<'_>,
) -> Result<(), Held> {
    let held = task.worker.is_some() || task.connection.is_some();
    let own = backend.kind::<Synthetic>().is_some();
    if is_piped(fetch) {
        keep_one(fetch);
        return Ok(());
    }
    if held || own || !backend.is_some() {
        return Ok(());
    }
    let snapshot = instance.snapshot();
    let (Some(snapshot), Some(store)) = (snapshot.as_ref(), instance.store()) else {
        return Ok(());
    };
    let Snapshot { requests, responses, .. } = &**snapshot;
    let worker = store.foreign_share.hold(fetch.place(), &requests.limits, 1);
    task.worker = Some(worker.map_err(|exhausted| {
        fetch.decline_body();
        reject(exhausted, "", &store.unrouted);
        overloaded(responses, exhausted)
    })?);
    Ok(())
}

fn overloaded(responses: &Arc<Responses>, exhausted: Exhausted) -> Held {
    Held::new(Arc::clone(responses), |all| all.overloaded(exhausted))
}

fn is_piped(fetch: &Fetch<'_>) -> bool {
    fetch.client().is_some()
}
