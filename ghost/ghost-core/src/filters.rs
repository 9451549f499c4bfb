//! Filters, compiled: header lines are put together once, not for each request.

use crate::wire;

/// A header, as the line `Name: value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderLine {
    line: Box<str>,
    name_length: usize,
}

impl HeaderLine {
    fn new(source: &wire::Header) -> Self {
        Self {
            line: format!("{}: {}", source.name, source.value).into(),
            name_length: source.name.len(),
        }
    }

    /// `Name: value`.
    #[must_use]
    pub fn line(&self) -> &str {
        &self.line
    }

    /// The name, as the user wrote it; names are compared without case.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.line[..self.name_length]
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.line[self.name_length + 2..]
    }
}

/// Changes to headers, to be carried out in the order set, add, remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderModifier {
    /// Each replaces every header of its name.
    pub set: Box<[HeaderLine]>,
    /// Each is added beside those of its name.
    pub add: Box<[HeaderLine]>,
    /// Every header of these names goes.
    pub remove: Box<[Box<str>]>,
}

impl HeaderModifier {
    fn new(source: &wire::HeaderModifier) -> Self {
        Self {
            set: source.set.iter().map(HeaderLine::new).collect(),
            add: source.add.iter().map(HeaderLine::new).collect(),
            remove: source.remove.iter().map(|name| name.as_str().into()).collect(),
        }
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.add.is_empty() && self.remove.is_empty()
    }
}

/// What happens to a request and its response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// To the request's headers.
    pub request: HeaderModifier,
    /// To the response's headers.
    pub response: HeaderModifier,
    /// To Host and path of the request.
    pub rewrite: Option<wire::Rewrite>,
}

impl Filters {
    pub(crate) fn new(source: Option<&wire::Filters>) -> Self {
        let Some(source) = source else { return Self::default() };
        Self {
            request: source.request.as_ref().map(HeaderModifier::new).unwrap_or_default(),
            response: source.response.as_ref().map(HeaderModifier::new).unwrap_or_default(),
            rewrite: source.rewrite.clone(),
        }
    }
}
