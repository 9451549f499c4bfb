//! What the router reads from a request.
//!
//! In:  a caller's own request type that implements [`Request`], or an [`OwnedRequest`].
//! Out: bytes as the client sent them; nothing has to be UTF-8.
//!
//! The trait borrows, so that a proxy routes without copying the request. The router calls
//! a method only when a route needs it: a configuration without header matches never
//! looks for a header.
//!
//! ```
//! use std::borrow::Cow;
//!
//! use ghost_core::{join_values, target, Host, Request};
//!
//! /// A request that borrows from the buffer of a connection.
//! struct Head<'a> {
//!     host: Host,
//!     method: &'a [u8],
//!     target: &'a [u8],
//!     headers: &'a [(&'a str, &'a [u8])],
//! }
//!
//! impl Request for Head<'_> {
//!     fn socket(&self) -> &str {
//!         "http-80"
//!     }
//!
//!     fn host(&self) -> &[u8] {
//!         &self.host
//!     }
//!
//!     fn method(&self) -> &[u8] {
//!         self.method
//!     }
//!
//!     fn path(&self) -> &[u8] {
//!         target::split(self.target).0
//!     }
//!
//!     fn query(&self) -> Option<&[u8]> {
//!         target::split(self.target).1
//!     }
//!
//!     fn header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
//!         let named = self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
//!         join_values(named.map(|(_, value)| *value))
//!     }
//! }
//!
//! let head = Head {
//!     host: Host::parse(b"Cafe.example.com:8080")?,
//!     method: b"GET",
//!     target: b"/tea?leaf=green+tips",
//!     headers: &[("Accept", b"text/html"), ("accept", b"text/plain")],
//! };
//! assert_eq!(head.host(), b"cafe.example.com");
//! assert_eq!(head.header("accept").as_deref(), Some(&b"text/html,text/plain"[..]));
//! assert_eq!(head.parameter("leaf").as_deref(), Some(&b"green tips"[..]));
//! # Ok::<(), ghost_core::host::Malformed>(())
//! ```

mod lookup;
mod owned;

pub(crate) use lookup::Lookup;
pub use owned::{OwnedRequest, RequestError};

use std::borrow::Cow;

use crate::query;

/// A request as the router reads it. See the [module](self) for an implementation.
pub trait Request {
    /// The name of the socket that accepted the request; listeners refer to it.
    fn socket(&self) -> &str;

    /// The host as [`Host`](crate::Host) normalises it: lower case, without port and
    /// trailing dot.
    fn host(&self) -> &[u8];

    /// The method, as the client sent it.
    fn method(&self) -> &[u8];

    /// The path without the query; [`target::normalise`](crate::target::normalise)
    /// resolves its dot segments.
    fn path(&self) -> &[u8];

    /// What follows the first "?", if there is one.
    fn query(&self) -> Option<&[u8]>;

    /// The value of a header, whose name the router gives in lower case. [`join_values`]
    /// combines the values of a repeated header.
    fn header(&self, name: &str) -> Option<Cow<'_, [u8]>>;

    /// The first value of a query parameter, decoded. The provided implementation
    /// percent-decodes and reads "+" as a space.
    fn parameter(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        query::first_value(self.query()?, name.as_bytes())
    }
}

/// Whether the method asks for a tunnel. A proxy must reject such a request before it
/// reaches a backend: the backend would treat the rest of a shared connection as the
/// tunnel.
///
/// ```
/// assert!(ghost_core::is_tunnel_request(b"CONNECT"));
/// assert!(!ghost_core::is_tunnel_request(b"GET"));
/// ```
#[must_use]
pub fn is_tunnel_request(method: &[u8]) -> bool {
    method == b"CONNECT"
}

/// Join the values of a repeated header with ",". It allocates only for two or more.
///
/// ```
/// use ghost_core::join_values;
///
/// let values = [&b"gzip"[..], b"br"];
/// assert_eq!(join_values(values.into_iter()).as_deref(), Some(&b"gzip,br"[..]));
/// assert_eq!(join_values([].into_iter()), None);
/// ```
pub fn join_values<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Option<Cow<'a, [u8]>> {
    let mut joined = Cow::Borrowed(values.next()?);
    for value in values {
        let all = joined.to_mut();
        all.push(b',');
        all.extend_from_slice(value);
    }
    Some(joined)
}
