//! Whether a request gets a worker, in the share of its route.
//!
//! A thread of varnishd's handles it already: one that gets none is answered at once. It is
//! still looked up in the cache, for a hit needs nothing but the time of sending it.

use std::sync::Arc;

use ghost_core::shares::{Exhausted, HeldWorkers, Limits, RouteShare};

use super::task::{ClientTask, Outcome};
use crate::config::{reject, Instance, Source};
use crate::varnish::{Client, Memory};

/// The worker that handles a request, and one for its fetch; None where no share counts it.
///
/// # Errors
/// Where a share has none left.
pub fn admit(
    client: &Client<'_>,
    instance: &Instance,
    limits: &Limits,
    outcome: &Outcome,
) -> Result<Option<HeldWorkers>, Exhausted> {
    let workers = own_workers(client) + 1;
    hold(client, instance, limits, outcome, workers).inspect_err(|_| client.decline_body())
}

/// Whether a response may be sent. One from the cache, or from a backend that user VCL chose,
/// needs a worker where the request got none before; without one it becomes an error. The
/// error that ghost itself made is sent in any case, but not for long to a client that does
/// not read it.
pub fn may_deliver(client: &Client<'_>, instance: &Instance, task: &Memory<ClientTask>) -> bool {
    // A rejected request has no fetch to wait for any more.
    task.get_mut().rejection = None;
    // The fetch has a worker of its own by now, or there is none.
    if let Some(held) = &mut task.get_mut().workers {
        held.keep(own_workers(client));
    }
    let Some(exhausted) = task.get().rejected else { return true };
    // The response of vcl_synth is not replaced: varnishd would go down.
    if !client.is_delivering() {
        return true;
    }
    if !client.is_hit() && task.gave(client.backend_hint()) {
        report(instance, &task.get().outcome, exhausted);
        task.get_mut().dismissed = client.dismiss();
        return true;
    }
    let snapshot = instance.snapshot();
    let limits = snapshot.as_ref().map_or_else(Limits::default, |found| found.requests.limits);
    let held = hold(client, instance, &limits, &task.get().outcome, own_workers(client));
    match held {
        Ok(worker) => {
            let mut task = task.get_mut();
            (task.workers, task.rejected) = (worker, None);
            true
        }
        Err(exhausted) => {
            report(instance, &task.get().outcome, exhausted);
            task.get_mut().dismissed = client.dismiss();
            client.respond_instead(503, &exhausted.to_string());
            false
        }
    }
}

/// Have a rejected request respond by itself if too many others wait for fetches that reject
/// them. It passes `vcl_synth`, and is not looked up: clients that all wait for a fetch would
/// leave no thread to run one.
pub fn reject_at_once(client: &Client<'_>, instance: &Instance, task: &Memory<ClientTask>) {
    let Some(exhausted) = task.get().rejected else { return };
    // Elsewhere vcl_synth can't follow: varnishd would go down.
    if !client.is_receiving() {
        return;
    }
    let rejection = share_of(instance, &task.get().outcome)
        .and_then(|share| share.hold_rejection(client.place()));
    if rejection.is_some() {
        task.get_mut().rejection = rejection;
        return;
    }
    report(instance, &task.get().outcome, exhausted);
    count(instance, &task.get().outcome, Source::Pass, client.seconds());
    task.get_mut().counted = true;
    task.get_mut().dismissed = client.dismiss();
    client.respond_instead(503, &exhausted.to_string());
}

/// Count the error that `vcl_synth` sends.
pub fn count(instance: &Instance, outcome: &Outcome, source: Source, seconds: f64) {
    match outcome.entry() {
        Some(entry) => {
            let counters = &entry.target().service.counters;
            counters.count(503, source, seconds);
            if matches!(outcome, Outcome::Loop(_)) {
                counters.count_loop();
            }
        }
        None => {
            if let Some(store) = instance.store() {
                store.unrouted.count(503, source, seconds);
            }
        }
    }
}

/// Workers without the fetch. ESI runs on the thread of the request that includes another.
fn own_workers(client: &Client<'_>) -> u32 {
    client.is_top().into()
}

fn hold(
    client: &Client<'_>,
    instance: &Instance,
    limits: &Limits,
    outcome: &Outcome,
    workers: u32,
) -> Result<Option<HeldWorkers>, Exhausted> {
    let Some(share) = share_of(instance, outcome) else { return Ok(None) };
    share.hold(client.place(), limits, workers).map(Some)
}

/// The share that a request is part of, if one counts it.
fn share_of<'a>(instance: &'a Instance, outcome: &'a Outcome) -> Option<&'a Arc<RouteShare>> {
    let store = instance.store()?;
    match (outcome, outcome.entry()) {
        (_, Some(entry)) => Some(&entry.target().service.share),
        (Outcome::Admin, None) => None,
        (_, None) => Some(&store.unrouted_share),
    }
}

fn report(instance: &Instance, outcome: &Outcome, exhausted: Exhausted) {
    match outcome.entry() {
        Some(entry) => {
            let target = entry.target();
            reject(exhausted, &target.rule.route, &target.service.counters);
        }
        None => {
            if let Some(store) = instance.store() {
                reject(exhausted, "", &store.unrouted);
            }
        }
    }
}
