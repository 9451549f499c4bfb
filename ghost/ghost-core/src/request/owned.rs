//! A request as owned data.

use std::borrow::Cow;
use std::fmt;

use super::{join_values, Request};
use crate::host::Host;
use crate::target;

/// A request as owned data, for tools and tests that ask what the router would do.
///
/// ```
/// use ghost_core::{OwnedRequest, Request};
///
/// let request = OwnedRequest::new("GET", "Cafe.example.com:8080", "/menu/../tea?hot=1")?
///     .with_socket("http-80")
///     .with_header("X-Version", "2");
/// assert_eq!(request.host(), b"cafe.example.com");
/// assert_eq!(request.path(), b"/tea");
/// assert_eq!(request.parameter("hot").as_deref(), Some(&b"1"[..]));
/// assert_eq!(request.header("x-version").as_deref(), Some(&b"2"[..]));
/// # Ok::<(), ghost_core::RequestError>(())
/// ```
#[derive(Clone, Debug)]
pub struct OwnedRequest {
    socket: Box<str>,
    host: Host,
    method: Box<str>,
    target: Box<[u8]>,
    path_length: usize,
    headers: Vec<(Box<str>, Vec<u8>)>,
}

/// Why a request can't be routed; a proxy answers it with 400.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// This Host is malformed.
    Host(String),
    /// This request target is malformed.
    Target(String),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => write!(f, "the host {host:?} is malformed"),
            Self::Target(target) => write!(f, "the target {target:?} is malformed"),
        }
    }
}

impl std::error::Error for RequestError {}

impl OwnedRequest {
    /// A request without headers on a socket without a name. `host` is the value of the
    /// Host header, `target` the path with the query.
    ///
    /// # Errors
    /// [`Host::parse`] or [`target::normalise`] rejects its part.
    pub fn new(method: &str, host: &str, target: &str) -> Result<Self, RequestError> {
        let parsed = Host::parse(host.as_bytes()).map_err(|_| RequestError::Host(host.into()))?;
        let target = target::normalise(target.as_bytes(), method.as_bytes())
            .map_err(|_| RequestError::Target(target.into()))?;
        Ok(Self {
            socket: "".into(),
            host: parsed,
            method: method.into(),
            path_length: target::split(&target).0.len(),
            target: target.into(),
            headers: Vec::new(),
        })
    }

    /// The same request on the socket of this name.
    #[must_use]
    pub fn with_socket(mut self, socket: &str) -> Self {
        self.socket = socket.into();
        self
    }

    /// The same request with one more header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Path and query, with dot segments resolved.
    #[must_use]
    pub fn target(&self) -> &[u8] {
        &self.target
    }
}

impl Request for OwnedRequest {
    fn socket(&self) -> &str {
        &self.socket
    }

    fn host(&self) -> &[u8] {
        &self.host
    }

    fn method(&self) -> &[u8] {
        self.method.as_bytes()
    }

    fn path(&self) -> &[u8] {
        &self.target[..self.path_length]
    }

    fn query(&self) -> Option<&[u8]> {
        self.target.get(self.path_length + 1..)
    }

    fn header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let named = self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        join_values(named.map(|(_, value)| value.as_slice()))
    }
}
