//! What the router asks a request.

use std::borrow::Cow;
use std::cell::OnceCell;

use crate::query::{self, Parameters};

/// A request, in bytes as they came; nothing needs to be UTF-8.
pub trait Request {
    /// The name of the varnishd socket that it came in on.
    fn socket(&self) -> &str;

    /// The host as [`crate::Host`] gives it: lower case, without port and trailing dot.
    fn host(&self) -> &[u8];

    /// The method, as it came.
    fn method(&self) -> &[u8];

    /// The path, with dot segments resolved and without the query.
    fn path(&self) -> &[u8];

    /// What stands after the first "?", if there is one.
    fn query(&self) -> Option<&[u8]>;

    /// The value of a header, whose name is given in lower case; [`join_values`] makes one
    /// of several.
    fn header(&self, name: &str) -> Option<Cow<'_, [u8]>>;

    /// The first value of a query parameter, decoded.
    fn parameter(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        query::first_value(self.query()?, name.as_bytes())
    }
}

/// Queries up to this length are read anew for each match that asks for a parameter, which
/// costs less than to remember them.
const SHORT: usize = 256;

/// A request whose query is read once, however many matches ask for its parameters.
pub(crate) struct ReadOnce<'r, R> {
    request: &'r R,
    parameters: OnceCell<Parameters<'r>>,
}

impl<'r, R: Request> ReadOnce<'r, R> {
    pub(crate) fn new(request: &'r R) -> Self {
        Self { request, parameters: OnceCell::new() }
    }
}

impl<R: Request> Request for ReadOnce<'_, R> {
    fn socket(&self) -> &str {
        self.request.socket()
    }

    fn host(&self) -> &[u8] {
        self.request.host()
    }

    fn method(&self) -> &[u8] {
        self.request.method()
    }

    fn path(&self) -> &[u8] {
        self.request.path()
    }

    fn query(&self) -> Option<&[u8]> {
        self.request.query()
    }

    fn header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.request.header(name)
    }

    fn parameter(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let query = self.request.query()?;
        if query.len() <= SHORT {
            return self.request.parameter(name);
        }
        let parameters = self.parameters.get_or_init(|| query::parameters(query));
        parameters.get(name.as_bytes()).copied().map(query::decode)
    }
}

/// Whether the method asks for a tunnel. None is ever made, and no backend must think so:
/// its connection goes on to serve others.
#[must_use]
pub fn is_tunnel_request(method: &[u8]) -> bool {
    method == b"CONNECT"
}

/// The values of a header as one, joined with ",". Allocates only for two or more.
pub fn join_values<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Option<Cow<'a, [u8]>> {
    let mut joined = Cow::Borrowed(values.next()?);
    for value in values {
        let all = joined.to_mut();
        all.push(b',');
        all.extend_from_slice(value);
    }
    Some(joined)
}
