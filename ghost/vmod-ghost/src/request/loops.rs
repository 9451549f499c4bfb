//! Requests that come back to the gateway which sent them: RFC 8586, CDN-Loop.
//!
//! ghost adds the gateway's identifier to every request that it sends, and leaves the rest of
//! the header alone. All pods of a gateway have the same identifier.

use std::env;
use std::sync::OnceLock;

use ghost_core::cdn_loop;

use crate::varnish::{Client, Http, OutOfWorkspace};

/// Has the identifier of the gateway.
const ID_VARIABLE: &str = "GHOST_CDN_ID";
const DEFAULT_ID: &str = "varnish-gateway";
const HEADER: &[u8] = b"cdn-loop";

/// How often a request may have passed before. Not zero: a service behind the gateway, such as
/// one that authenticates users, may send the request on through the gateway.
const EARLIER_PASSES: usize = 1;

/// Whether the request has passed too often. A request that has passed before never waits for
/// a fetch of the same object, for that may be the fetch which sent it.
pub fn is_loop(client: &Client<'_>, http: &Http<'_>) -> bool {
    let passes = cdn_loop::passes(http.values(HEADER), id().as_bytes());
    if passes > 0 {
        client.ignore_busy();
    }
    passes > EARLIER_PASSES
}

/// Mark a request to a backend as sent by this gateway.
pub fn mark(bereq: &mut Http<'_>) -> Result<(), OutOfWorkspace> {
    bereq.append(&[b"CDN-Loop: ", id().as_bytes()])
}

fn id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| env::var(ID_VARIABLE).unwrap_or_else(|_| DEFAULT_ID.to_owned()))
}
