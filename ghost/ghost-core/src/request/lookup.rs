//! A request as one lookup reads it.

use std::borrow::Cow;
use std::cell::OnceCell;

use super::Request;
use crate::query::{self, Parameters};
use crate::steps::Steps;

/// Up to this length it is cheaper to scan the query for each match than to index it.
const SHORT_QUERY: usize = 256;

/// Wraps a request so that its query is indexed at most once, however many matches ask for
/// a parameter. A preflight is also looked up under the method that it announces.
pub(crate) struct Lookup<'r, R> {
    request: &'r R,
    method: Option<Cow<'r, [u8]>>,
    parameters: OnceCell<Parameters<'r>>,
    steps: &'r Steps,
}

impl<'r, R: Request> Lookup<'r, R> {
    /// A lookup that spends `steps`.
    pub(crate) fn new(request: &'r R, steps: &'r Steps) -> Self {
        Self { request, method: None, parameters: OnceCell::new(), steps }
    }

    /// The same request under another method.
    pub(crate) fn with_method(request: &'r R, method: Cow<'r, [u8]>, steps: &'r Steps) -> Self {
        Self { method: Some(method), ..Self::new(request, steps) }
    }

    /// What regular expressions may still spend on this request.
    pub(crate) fn steps(&self) -> &'r Steps {
        self.steps
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
        parameters.get(name.as_bytes()).map(|value| Cow::Borrowed(&**value))
    }
}
