//! Upgrades to a WebSocket, on the backend's side.
//!
//! The handshake is a request like any other: it has the rule's filters, deadlines and retries,
//! and any other response than a 101 reaches the client through `vcl_deliver`.

use ghost_core::shares::{HeldConnection, HeldWebSocket};

use super::task::FetchTask;
use crate::config::Source;
use crate::failure::Failure;
use crate::varnish::{Client, Fetch, Http, OutOfWorkspace, Tunnel};

/// What a fetch leaves for its client: a tunnel to an endpoint that has upgraded, and what it
/// holds.
pub type Upgraded = (Tunnel, Option<HeldConnection>, Option<HeldWebSocket>);

/// Leave the connection to the client that waits for it, if the endpoint has upgraded.
pub fn hand_over(fetch: &mut Fetch<'_>) {
    let upgrade = fetch.recall::<FetchTask>().and_then(|task| task.get().upgrade.clone());
    let Some(upgrade) = upgrade else { return };
    if fetch.beresp().is_none_or(|beresp| beresp.status() != 101) {
        return;
    }
    let Some(tunnel) = Tunnel::of(fetch) else { return };
    let Some(task) = fetch.recall::<FetchTask>() else { return };
    let mut task = task.get_mut();
    // From now on only the client's thread waits for the endpoint.
    let connection = task.connection.take().map(HeldConnection::for_one_worker);
    upgrade.leave((tunnel, connection, task.web_socket.take()));
}

/// varnishd removes the headers that hold for one connection; a WebSocket needs them.
pub fn keep(bereq: &mut Http<'_>) -> Result<(), OutOfWorkspace> {
    bereq.remove(b"connection");
    bereq.remove(b"upgrade");
    bereq.append_static(c"Connection: Upgrade")?;
    bereq.append_static(c"Upgrade: websocket")
}

/// Whether user VCL pipes this request, and ghost lets it: the handshake of a WebSocket, to a
/// rule that changes no response. None if it does not pipe it.
pub fn is_piped(fetch: &Fetch<'_>, changes_responses: bool) -> Result<Option<bool>, Failure> {
    let Some(client) = fetch.client() else { return Ok(None) };
    let req = client.req().ok_or(Failure::WrongSubroutine)?;
    Ok(Some(req.asks_for_websocket() && !changes_responses))
}

/// varnishd does not deliver a pipe, so ghost counts it where it begins.
pub fn count_pipe(fetch: &Fetch<'_>, status: u16) {
    let Some(client) = fetch.client() else { return };
    if let Some(target) = fetch.recall::<FetchTask>().and_then(|task| task.get().target.clone()) {
        target.service.counters.count(status, Source::Pass, Client::seconds(&client));
    }
}
