//! A request as one lookup reads it.

use std::borrow::Cow;
use std::cell::OnceCell;

use super::Request;
use crate::query::{self, Parameters};

/// Up to this length it is cheaper to scan the query for each match than to index it.
const SHORT_QUERY: usize = 256;

/// Wraps a request so that its query is indexed at most once, however many matches ask for
/// a parameter. A preflight is also looked up under the method that it announces.
pub(crate) struct Lookup<'r, R> {
    request: &'r R,
    method: Option<Cow<'r, [u8]>>,
    parameters: OnceCell<Parameters<'r>>,
}

impl<'r, R: Request> Lookup<'r, R> {
    pub(crate) fn new(request: &'r R) -> Self {
        Self { request, method: None, parameters: OnceCell::new() }
    }

    /// The same request under another method.
    pub(crate) fn with_method(request: &'r R, method: Cow<'r, [u8]>) -> Self {
        Self { method: Some(method), ..Self::new(request) }
    }
}

impl<R: Request> Request for Lookup<'_, R> {
    fn socket(&self) -> &str {
        self.request.socket()
    }

    fn host(&self) -> &[u8] {
        self.request.host()
    }

    fn method(&self) -> &[u8] {
        self.method.as_deref().unwrap_or_else(|| self.request.method())
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
        if query.len() <= SHORT_QUERY {
            return self.request.parameter(name);
        }
        let parameters = self.parameters.get_or_init(|| query::parameters(query));
        parameters.get(name.as_bytes()).copied().map(query::decode)
    }
}
