//! Before varnishd delivers a response: CORS, the rule's filters, and counters.

use ghost_core::Cors;

use super::admission;
use super::draining;
use super::task::{ClientTask, Outcome};
use crate::cache;
use crate::config::{CacheResult, Instance, Source};
use crate::failure::Failure;
use crate::fetch::edit;
use crate::varnish::{Client, Http, OutOfWorkspace};

/// Apply CORS and the response filters of the rule, which have the last word; count the
/// response.
pub fn deliver(client: &Client<'_>, instance: &Instance) -> Result<(), Failure> {
    let mut resp = client.resp().ok_or(Failure::WrongSubroutine)?;
    draining::on_response(client);
    let Some(task) = client.recall::<ClientTask>() else { return Ok(()) };
    let (status, source, seconds) = (resp.status(), source(client), client.seconds());
    if !admission::may_deliver(client, instance, task) {
        admission::count(instance, &task.get().outcome, source, seconds);
        task.get_mut().counted = true;
        return Ok(());
    }
    let counted = task.get().counted;
    let outcome = &task.get().outcome;
    match outcome {
        Outcome::Routed(entry, _) | Outcome::Preflight(entry) => {
            let target = entry.target();
            let count = |status| {
                if !counted {
                    target.service.counters.count(status, source, seconds);
                }
            };
            // An endpoint may have agreed, and VCL made another response of it.
            if status == 101 {
                task.get().count_result(CacheResult::Pass);
                upgrade(client, &mut resp, &task.get(), count);
                return Ok(());
            }
            count(status);
            if let Some(cached) = &task.get().cached {
                let snapshot = instance.snapshot();
                let snapshot = snapshot.as_ref().ok_or(Failure::NotLoaded)?;
                let proxies = &snapshot.requests.proxies;
                let result = cache::deliver(client, cached, proxies, &mut resp)?;
                if !counted {
                    task.get().count_result(result);
                }
            }
            if let (Some(cors), Outcome::Routed(..)) = (&target.rule.cors, outcome) {
                let req = client.req().ok_or(Failure::WrongSubroutine)?;
                allow_origin(&mut resp, cors, &req)?;
            }
            edit(&mut resp, &target.rule.filters.response)?;
        }
        Outcome::Loop(entry) => {
            let counters = &entry.target().service.counters;
            if !counted {
                counters.count(status, source, seconds);
            }
            counters.count_loop();
        }
        Outcome::Purge(entry) => {
            if !counted {
                entry.target().service.counters.count(status, source, seconds);
            }
        }
        Outcome::Unrouted => {
            if let Some(store) = instance.store().filter(|_| !counted) {
                store.unrouted.count(status, source, seconds);
            }
        }
        Outcome::Admin => {}
    }
    Ok(())
}

/// Continue as a WebSocket. The client gets an error where varnishd allows no further tunnel,
/// and where the connection of the endpoint could not be handed over. `count` counts what the
/// client gets.
fn upgrade(client: &Client<'_>, resp: &mut Http<'_>, task: &ClientTask, count: impl Fn(u16)) {
    let upgraded = task.upgrade.as_ref().and_then(ghost_sync::Expected::take);
    let error = match upgraded {
        None => 502,
        Some((tunnel, _connection, _web_socket)) => match tunnel.enter() {
            None => 503,
            Some(open) => {
                count(101);
                open.run(client, resp);
                return;
            }
        },
    };
    count(error);
    resp.put_status(error);
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
