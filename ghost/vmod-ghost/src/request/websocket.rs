//! Which requests varnishd pipes.

use ghost_core::Action;

use super::task::{ClientTask, Outcome};
use crate::failure::Failure;
use crate::varnish::Client;

/// Whether the request asks to continue as a WebSocket, and can: over HTTP/1.1, to a backend
/// whose response needs no filter. varnishd does not see the response of a pipe, and an
/// endpoint need not upgrade: any client could otherwise bypass the response filters of a
/// rule.
pub fn is_websocket(client: &Client<'_>) -> Result<bool, Failure> {
    let req = client.req().ok_or(Failure::WrongSubroutine)?;
    if !req.asks_for_websocket() {
        return Ok(false);
    }
    let Some(task) = client.recall::<ClientTask>() else { return Ok(false) };
    let Outcome::Routed(entry, _) = &task.get().outcome else { return Ok(false) };
    let rule = &entry.target().rule;
    Ok(matches!(rule.action, Action::Backends(_)) && !rule.modifies_responses())
}
