//! The Location of a redirect.
//!
//! In:  the redirect filter, and the parts of the request that it keeps.
//! Out: the value of the Location header.
//!
//! The port is the filter's; without one, that of the filter's scheme; without either, the
//! listener's. The default port of the scheme is left out.
//!
//! ```
//! use ghost_core::redirect::{location, RequestParts};
//! use ghost_core::{wire, Match};
//!
//! let redirect: wire::Redirect = wire::decode(
//!     br#"{"scheme": "https", "path": {"type": "prefix", "value": "/drinks"}}"#,
//! )?;
//! let listener = wire::Listener { name: "web".into(), port: 8080, ..Default::default() };
//! let matched: wire::Match =
//!     wire::decode(br#"{"path": {"type": "prefix", "value": "/tea"}}"#)?;
//! let request = RequestParts {
//!     listener: &listener,
//!     matched: &Match::compile(&matched)?,
//!     host: b"cafe.example.com",
//!     path: b"/tea/green",
//!     query: Some(b"cup=1"),
//! };
//! assert_eq!(location(&redirect, &request), b"https://cafe.example.com/drinks/green?cup=1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::io::Write as _;

use crate::matches::Match;
use crate::rewrite;
use crate::target;
use crate::wire;

/// What a redirect keeps of the request.
#[derive(Clone, Copy, Debug)]
pub struct RequestParts<'a> {
    /// The listener that accepted the request.
    pub listener: &'a wire::Listener,
    /// The match that the request met.
    pub matched: &'a Match,
    /// Its host as [`Host`](crate::Host) normalises it.
    pub host: &'a [u8],
    /// Its path.
    pub path: &'a [u8],
    /// Its query, which the Location keeps.
    pub query: Option<&'a [u8]>,
}

/// The value of the Location header. If neither the filter nor the request has a host, it
/// is a path.
#[must_use]
pub fn location(redirect: &wire::Redirect, request: &RequestParts<'_>) -> Vec<u8> {
    let mut location = Vec::with_capacity(64 + request.path.len());
    let host = redirect.hostname.as_ref().map_or(request.host, |name| name.as_bytes());
    if !host.is_empty() {
        let scheme = redirect.scheme.unwrap_or(request.listener.scheme);
        location.extend_from_slice(scheme.as_str().as_bytes());
        location.extend_from_slice(b"://");
        location.extend_from_slice(host);
        let port = port(redirect, request.listener);
        if port != scheme.well_known_port() && port != 0 {
            // Writing into memory can't fail.
            let _ = write!(location, ":{port}");
        }
    }
    // The "*" of OPTIONS is no path: it would continue the host or the port.
    let path = if request.path.starts_with(b"/") { request.path } else { b"/" };
    match &redirect.path {
        Some(modifier) => location.extend(rewrite::path(modifier, request.matched, path)),
        None => location.extend_from_slice(path),
    }
    target::join(location, request.query)
}

/// The port of the redirect, else that of its scheme, else the listener's.
fn port(redirect: &wire::Redirect, listener: &wire::Listener) -> u16 {
    match (redirect.port, redirect.scheme) {
        (Some(port), _) => port,
        (None, Some(scheme)) => scheme.well_known_port(),
        (None, None) => listener.port,
    }
}
