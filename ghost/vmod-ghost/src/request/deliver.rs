//! Before varnishd delivers a response: CORS, the rule's filters, and counters.

use ghost_core::Cors;

use super::task::{ClientTask, Outcome};
use crate::config::{Instance, Source};
use crate::failure::Failure;
use crate::fetch::edit;
use crate::varnish::{Client, Http, OutOfWorkspace};

/// Apply CORS and the response filters of the rule, which have the last word; count the
/// response.
pub fn deliver(client: &Client<'_>, instance: &Instance) -> Result<(), Failure> {
    let mut resp = client.resp().ok_or(Failure::WrongSubroutine)?;
    let Some(task) = client.recall::<ClientTask>() else { return Ok(()) };
    let (status, source, seconds) = (resp.status(), source(client), client.seconds());
    let outcome = &task.get().outcome;
    match outcome {
        Outcome::Routed(entry, _) | Outcome::Preflight(entry) => {
            let target = entry.target();
            target.service.counters.count(status, source, seconds);
            if let Some(tunnel) = task.get().upgrade.as_ref().and_then(|it| it.handover().take()) {
                if !tunnel.run(client, &resp) {
                    resp.put_status(503);
                }
                return Ok(());
            }
            if let (Some(cors), Outcome::Routed(..)) = (&target.rule.cors, outcome) {
                let req = client.req().ok_or(Failure::WrongSubroutine)?;
                allow_origin(&mut resp, cors, &req)?;
            }
            edit(&mut resp, &target.rule.filters.response)?;
        }
        Outcome::Loop(entry) => {
            let counters = &entry.target().service.counters;
            counters.count(status, source, seconds);
            counters.count_loop();
        }
        Outcome::Unrouted => {
            if let Some(store) = instance.store() {
                store.unrouted.count(status, source, seconds);
            }
        }
        Outcome::Admin => {}
    }
    Ok(())
}

/// Declare which origin may read the response. What the backend declares does not count: the
/// response may be in the cache for another origin.
fn allow_origin(resp: &mut Http<'_>, cors: &Cors, req: &Http<'_>) -> Result<(), OutOfWorkspace> {
    const OURS: &[u8] = b"access-control-";
    resp.retain(|line| {
        !line.get(..OURS.len()).is_some_and(|start| start.eq_ignore_ascii_case(OURS))
    });
    if let Some(origin) = req.header(b"origin") {
        for (name, value) in cors.response_headers(origin) {
            resp.append(&[name.as_bytes(), b": ", value])?;
        }
    }
    let names_origin = |value: &[u8]| {
        let mut names = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        names.any(|name| name == b"*" || name.eq_ignore_ascii_case(b"origin"))
    };
    if cors.varies_by_origin() && !resp.values(b"vary").any(names_origin) {
        resp.append_static(c"Vary: Origin")?;
    }
    Ok(())
}

fn source(client: &Client<'_>) -> Source {
    if client.is_hit() {
        Source::Hit
    } else if client.is_private() {
        Source::Pass
    } else {
        Source::Miss
    }
}
