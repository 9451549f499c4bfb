//! One match of a rule, compiled, and whether a request satisfies it.

use crate::pattern::{Pattern, PatternError};
use crate::request::Request;
use crate::wire;

/// How a path is compared.
#[derive(Clone, Debug)]
pub enum PathPattern {
    /// Byte for byte.
    Exact(Box<str>),
    /// By whole segments; stored without its trailing slash, so that "/" is "".
    Prefix(Box<str>),
    /// As a whole.
    Regex(Pattern),
}

/// How the value of a header or a query parameter is compared.
#[derive(Clone, Debug)]
pub enum ValuePattern {
    /// Byte for byte.
    Exact(Box<str>),
    /// As a whole.
    Regex(Pattern),
}

/// A condition on a header or a query parameter.
#[derive(Clone, Debug)]
pub struct ValueMatch {
    /// Which one; a header's name is lower case.
    pub name: Box<str>,
    /// Its value.
    pub value: ValuePattern,
}

/// Everything in it must hold.
#[derive(Clone, Debug)]
pub struct Match {
    /// The path.
    pub path: PathPattern,
    /// The method, compared with case.
    pub method: Option<Box<str>>,
    /// Headers.
    pub headers: Box<[ValueMatch]>,
    /// Query parameters.
    pub query: Box<[ValueMatch]>,
}

impl Match {
    /// Compile a match from the wire.
    ///
    /// # Errors
    /// A regular expression in it is refused.
    pub fn compile(source: &wire::Match) -> Result<Self, PatternError> {
        Ok(Self {
            path: PathPattern::compile(&source.path)?,
            method: source.method.as_deref().map(Into::into),
            headers: compile_values(&source.headers)?,
            query: compile_values(&source.query)?,
        })
    }

    /// Whether method, headers and query of `request` are as it says; the path is the
    /// router's affair.
    pub(crate) fn matches_except_path(&self, request: &impl Request) -> bool {
        self.method_holds(request) && self.headers_hold(request) && self.query_holds(request)
    }

    pub(crate) fn method_holds(&self, request: &impl Request) -> bool {
        self.method.as_ref().is_none_or(|method| method.as_bytes() == request.method())
    }

    pub(crate) fn headers_hold(&self, request: &impl Request) -> bool {
        self.headers.iter().all(|header| header.header_holds(request))
    }

    pub(crate) fn query_holds(&self, request: &impl Request) -> bool {
        self.query.iter().all(|parameter| parameter.query_holds(request))
    }
}

impl PathPattern {
    fn compile(source: &wire::PathMatch) -> Result<Self, PatternError> {
        Ok(match source.r#type {
            wire::PathMatchType::Exact => Self::Exact(source.value.as_str().into()),
            wire::PathMatchType::Prefix => {
                Self::Prefix(source.value.strip_suffix('/').unwrap_or(&source.value).into())
            }
            wire::PathMatchType::Regex => Self::Regex(Pattern::new(&source.value)?),
        })
    }

    /// The path, prefix ("/" for the one of everything) or regular expression.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Exact(path) => path,
            Self::Prefix(prefix) if prefix.is_empty() => "/",
            Self::Prefix(prefix) => prefix,
            Self::Regex(pattern) => pattern.source(),
        }
    }
}

impl ValueMatch {
    fn compile(source: &wire::ValueMatch) -> Result<Self, PatternError> {
        let value = match source.r#type {
            wire::ValueMatchType::Exact => ValuePattern::Exact(source.value.as_str().into()),
            wire::ValueMatchType::Regex => ValuePattern::Regex(Pattern::new(&source.value)?),
        };
        Ok(Self { name: source.name.as_str().into(), value })
    }

    pub(crate) fn header_holds(&self, request: &impl Request) -> bool {
        request.header(&self.name).is_some_and(|value| self.value.holds(&value))
    }

    pub(crate) fn query_holds(&self, request: &impl Request) -> bool {
        request.parameter(&self.name).is_some_and(|value| self.value.holds(&value))
    }
}

impl ValuePattern {
    fn holds(&self, value: &[u8]) -> bool {
        match self {
            Self::Exact(expected) => expected.as_bytes() == value,
            Self::Regex(pattern) => pattern.matches(value),
        }
    }
}

fn compile_values(sources: &[wire::ValueMatch]) -> Result<Box<[ValueMatch]>, PatternError> {
    sources.iter().map(ValueMatch::compile).collect()
}
