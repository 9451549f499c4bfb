//! Requests that may continue as a WebSocket.
//!
//! Such a request is passed like any other. A header that never leaves ghost says which client
//! the fetch is for, so that it can leave the connection to an endpoint that upgrades.

use std::sync::Arc;

use ghost_core::Action;
use ghost_sync::{Handover, Waiting};

use super::task::{ClientTask, Outcome};
use crate::failure::Failure;
use crate::fetch::Upgraded;
use crate::varnish::{Client, Http};

const HEADER: &str = "X-Ghost-Upgrade";

/// Clients that wait for an upgrade.
static WAITING: Waiting<Upgraded> = Waiting::new();

/// An upgrade that a client waits for; forgotten with its request.
pub type Expected = ghost_sync::Expected<Upgraded, &'static Waiting<Upgraded>>;

/// Let the request continue as a WebSocket if its endpoint upgrades. It must be the handshake
/// of one, over HTTP/1.1, and its rule must not change responses: the filters would not apply
/// to what follows.
pub fn expect_upgrade(client: &Client<'_>) -> Result<(), Failure> {
    let mut req = client.req().ok_or(Failure::WrongSubroutine)?;
    if !req.asks_for_websocket() || !client.is_top() {
        return Ok(());
    }
    let Some(task) = client.recall::<ClientTask>() else { return Ok(()) };
    let mut task = task.get_mut();
    let Outcome::Routed(entry, _) = &task.outcome else { return Ok(()) };
    let rule = &entry.target().rule;
    if matches!(rule.action, Action::Backends(_)) && !rule.modifies_responses() {
        let expected = Expected::new(&WAITING);
        req.set(HEADER, expected.number().to_string().as_bytes())?;
        task.upgrade = Some(expected);
    }
    Ok(())
}

/// The client that waits for this fetch to upgrade. The backend does not see the header.
pub fn claim(bereq: &mut Http<'_>) -> Option<Arc<Handover<Upgraded>>> {
    let number = std::str::from_utf8(bereq.header(HEADER.as_bytes())?).ok()?.parse().ok();
    bereq.remove(HEADER.as_bytes());
    WAITING.claim(number?)
}
