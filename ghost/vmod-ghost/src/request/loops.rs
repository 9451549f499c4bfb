//! Requests that come back to the gateway which sent them: RFC 8586, CDN-Loop.
//!
//! ghost adds the gateway's identifier to every request that it sends, and leaves the rest of
//! the header alone. All pods of a gateway have the same identifier. A parameter proves that this
//! process sent the request: any client may write the identifier.

use std::collections::hash_map::RandomState;
use std::env;
use std::hash::BuildHasher as _;
use std::sync::OnceLock;

use ghost_core::{cdn_loop, join_values};

use crate::varnish::{Client, Http, OutOfWorkspace};

/// Has the identifier of the gateway.
const ID_VARIABLE: &str = "GHOST_CDN_ID";
const DEFAULT_ID: &str = "varnish-gateway";
pub(super) const HEADER: &[u8] = b"cdn-loop";

/// How often a request may have passed before. Not zero: a service behind the gateway, such as
/// one that authenticates users, may send the request on through the gateway.
const EARLIER_PASSES: usize = 1;

/// Whether the request has passed too often. A request that this process has sent never waits for
/// a fetch of the same object, for that may be the fetch which sent it. Any other one waits, or a
/// client could have every request of its own fetched.
///
/// varnishd leaves out what the request lists in Connection. A filter of a route or an endpoint
/// could list CDN-Loop there, and each pass would be the first one. A header that ghost sets
/// is not left out.
pub fn is_loop(client: &Client<'_>, http: &mut Http<'_>) -> Result<bool, OutOfWorkspace> {
    let passes = cdn_loop::passes(http.values(HEADER), id().as_bytes());
    if passes > 0 {
        if cdn_loop::is_proven(http.values(HEADER), id().as_bytes(), proof().as_bytes()) {
            client.ignore_busy();
        }
        let all = join_values(http.values(HEADER)).unwrap_or_default();
        http.set("CDN-Loop", &all)?;
    }
    Ok(passes > EARLIER_PASSES)
}

/// Whether this gateway has sent the request, as far as it says.
pub fn has_passed(http: &Http<'_>) -> bool {
    cdn_loop::passes(http.values(HEADER), id().as_bytes()) > 0
}

/// Mark a request to a backend as sent by this gateway.
pub fn mark(bereq: &mut Http<'_>) -> Result<(), OutOfWorkspace> {
    bereq.append(&[b"CDN-Loop: ", id().as_bytes(), b"; ", proof().as_bytes()])
}

/// What only this process and the endpoints of its routes know.
fn proof() -> &'static str {
    static PROOF: OnceLock<String> = OnceLock::new();
    let random = || RandomState::new().hash_one(0_u8);
    PROOF.get_or_init(|| format!("pass={:016x}{:016x}", random(), random()))
}

fn id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| env::var(ID_VARIABLE).unwrap_or_else(|_| DEFAULT_ID.to_owned()))
}
