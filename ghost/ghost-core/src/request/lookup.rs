//! A request as one lookup reads it.

use std::borrow::Cow;
use std::cell::OnceCell;

use super::Request;
use crate::query::{self, Parameters};
use crate::steps::Steps;

/// Up to this length it is cheaper to scan the query for each match than to index it.
const SHORT_QUERY: usize = 256;

/// Wraps a request so that its query is indexed at most once, and the lines of a header are
/// joined at most once, however many matches ask for them. A preflight is also looked up under
/// the method that it announces.
pub(crate) struct Lookup<'r, R> {
    request: &'r R,
    method: Option<Cow<'r, [u8]>>,
    parameters: OnceCell<Parameters<'r>>,
    joined: JoinedHeaders,
    steps: &'r Steps,
}

impl<'r, R: Request> Lookup<'r, R> {
    /// A lookup that spends `steps`.
    pub(crate) fn new(request: &'r R, steps: &'r Steps) -> Self {
        Self {
            request,
            method: None,
            parameters: OnceCell::new(),
            joined: JoinedHeaders::default(),
            steps,
        }
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
        if let Some(value) = self.joined.get(name) {
            return Some(Cow::Borrowed(value));
        }
        Some(match self.request.header(name)? {
            Cow::Owned(value) => Cow::Borrowed(self.joined.add(name, value)),
            borrowed @ Cow::Borrowed(_) => borrowed,
        })
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

/// Values of headers that came in several lines. A list, because it lends its values while it
/// grows; few headers come in several lines.
#[derive(Default)]
struct JoinedHeaders(OnceCell<Box<JoinedHeader>>);

struct JoinedHeader {
    name: Box<str>,
    value: Vec<u8>,
    next: JoinedHeaders,
}

impl JoinedHeaders {
    fn get(&self, name: &str) -> Option<&[u8]> {
        let mut rest = self;
        while let Some(header) = rest.0.get() {
            if &*header.name == name {
                return Some(&header.value);
            }
            rest = &header.next;
        }
        None
    }

    fn add(&self, name: &str, value: Vec<u8>) -> &[u8] {
        let mut last = self;
        while let Some(header) = last.0.get() {
            last = &header.next;
        }
        let new = || Box::new(JoinedHeader { name: name.into(), value, next: Self::default() });
        &last.0.get_or_init(new).value
    }
}
