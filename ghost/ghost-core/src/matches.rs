//! The matches of a rule.
//!
//! In:  a [`wire::Match`].
//! Out: a compiled [`Match`], or a [`MatchError`] that names the field whose regular
//!      expression is rejected.
//!
//! Every condition of a match has to hold. Header names are compared without case, names of
//! query parameters with case; values are compared as a whole and with case.
//!
//! ```
//! use ghost_core::{wire, Match, MatchField, PathPattern};
//!
//! let source: wire::Match = wire::decode(
//!     br#"{"path": {"type": "prefix", "value": "/tea/"}, "method": "GET"}"#,
//! )?;
//! let compiled = Match::compile(&source)?;
//! assert!(matches!(&compiled.path, PathPattern::Prefix(_)));
//! assert_eq!(compiled.path.as_str(), "/tea");
//!
//! let source: wire::Match = wire::decode(
//!     br#"{"headers": [{"name": "x-version", "value": "[", "type": "regex"}]}"#,
//! )?;
//! let error = Match::compile(&source).unwrap_err();
//! assert_eq!(error.field, MatchField::Header("x-version".into()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;

use crate::budget::Budget;
use crate::pattern::{Pattern, PatternError};
use crate::request::{Lookup, Request};
use crate::steps::{OverBudget, Steps};
use crate::wire;

/// A condition on the path.
#[derive(Clone, Debug)]
pub enum PathPattern {
    /// Byte for byte.
    Exact(Box<str>),
    /// By whole segments. It is stored without its trailing slash, so that "/" is "".
    Prefix(Box<str>),
    /// By a regular expression over the whole value.
    Regex(Pattern),
}

/// A condition on a value.
#[derive(Clone, Debug)]
pub enum ValuePattern {
    /// Byte for byte.
    Exact(Box<str>),
    /// By a regular expression over the whole value.
    Regex(Pattern),
}

/// A condition on a header or a query parameter.
#[derive(Clone, Debug)]
pub struct ValueMatch {
    /// The name; a header's name is in lower case.
    pub name: Box<str>,
    /// The condition on its value.
    pub value: ValuePattern,
}

/// A compiled match: a request meets it if every condition holds.
#[derive(Clone, Debug)]
pub struct Match {
    /// The condition on the path.
    pub path: PathPattern,
    /// The method, compared with case.
    pub method: Option<Box<str>>,
    /// Conditions on headers.
    pub headers: Box<[ValueMatch]>,
    /// Conditions on query parameters.
    pub query: Box<[ValueMatch]>,
}

/// A field of a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatchField {
    /// The path.
    Path,
    /// The header of this name.
    Header(Box<str>),
    /// The query parameter of this name.
    Query(Box<str>),
}

/// Why a match can't be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchError {
    /// The field at fault.
    pub field: MatchField,
    /// What is wrong with its regular expression.
    pub error: PatternError,
}

impl fmt::Display for MatchField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path => f.write_str("path"),
            Self::Header(name) => write!(f, "header {name}"),
            Self::Query(name) => write!(f, "query parameter {name}"),
        }
    }
}

impl fmt::Display for MatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.error)
    }
}

impl std::error::Error for MatchError {}

impl Match {
    /// Compile a match from the wire.
    ///
    /// # Errors
    /// A regular expression in it is rejected.
    pub fn compile(source: &wire::Match) -> Result<Self, MatchError> {
        Self::compile_within(source, &mut Budget::default())
    }

    /// Compile a match of a route that has this budget.
    pub(crate) fn compile_within(
        source: &wire::Match,
        budget: &mut Budget,
    ) -> Result<Self, MatchError> {
        let path = PathPattern::compile(&source.path, budget);
        Ok(Self {
            path: path.map_err(|error| MatchError { field: MatchField::Path, error })?,
            method: source.method.as_deref().map(Into::into),
            headers: compile_values(&source.headers, MatchField::Header, budget)?,
            query: compile_values(&source.query, MatchField::Query, budget)?,
        })
    }

    /// Whether `request` meets all conditions but the one on the path.
    pub(crate) fn matches_except_path<R: Request>(
        &self,
        request: &Lookup<'_, R>,
    ) -> Result<bool, OverBudget> {
        let within = |holds, part| {
            if request.steps().are_exceeded() {
                Err(part)
            } else {
                Ok(holds)
            }
        };
        if !self.matches_method(request) {
            return Ok(false);
        }
        let headers = self.headers.iter().all(|header| header.matches_header(request));
        if !within(headers, OverBudget::Header)? {
            return Ok(false);
        }
        let query = self.query.iter().all(|parameter| parameter.matches_query(request));
        within(query, OverBudget::Target)
    }

    pub(crate) fn matches_method(&self, request: &impl Request) -> bool {
        self.method.as_ref().is_none_or(|method| method.as_bytes() == request.method())
    }
}

impl PathPattern {
    fn compile(source: &wire::PathMatch, budget: &mut Budget) -> Result<Self, PatternError> {
        Ok(match source.r#type {
            wire::PathMatchType::Exact => Self::Exact(source.value.as_str().into()),
            wire::PathMatchType::Prefix => {
                Self::Prefix(source.value.strip_suffix('/').unwrap_or(&source.value).into())
            }
            wire::PathMatchType::Regex => Self::Regex(budget.compile(&source.value)?),
        })
    }

    pub(crate) fn matches(&self, path: &[u8], steps: &Steps) -> bool {
        match self {
            Self::Exact(expected) => expected.as_bytes() == path,
            Self::Prefix(prefix) => match path.strip_prefix(prefix.as_bytes()) {
                Some(rest) => prefix.is_empty() || matches!(rest, [] | [b'/', ..]),
                None => false,
            },
            Self::Regex(pattern) => pattern.matches_within(path, steps),
        }
    }

    /// The path, the prefix ("/" if it is empty) or the regular expression.
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
    fn compile(source: &wire::ValueMatch, budget: &mut Budget) -> Result<Self, PatternError> {
        let value = match source.r#type {
            wire::ValueMatchType::Exact => ValuePattern::Exact(source.value.as_str().into()),
            wire::ValueMatchType::Regex => ValuePattern::Regex(budget.compile(&source.value)?),
        };
        Ok(Self { name: source.name.as_str().into(), value })
    }

    pub(crate) fn matches_header<R: Request>(&self, request: &Lookup<'_, R>) -> bool {
        if !request.steps().seek_header() {
            return false;
        }
        let value = request.header(&self.name);
        value.is_some_and(|value| self.value.matches(&value, request.steps()))
    }

    pub(crate) fn matches_query<R: Request>(&self, request: &Lookup<'_, R>) -> bool {
        if !request.steps().seek_parameter() {
            return false;
        }
        let value = request.parameter(&self.name);
        value.is_some_and(|value| self.value.matches(&value, request.steps()))
    }
}

impl ValuePattern {
    fn matches(&self, value: &[u8], steps: &Steps) -> bool {
        match self {
            Self::Exact(expected) => expected.as_bytes() == value,
            Self::Regex(pattern) => pattern.matches_within(value, steps),
        }
    }
}

fn compile_values(
    sources: &[wire::ValueMatch],
    field: fn(Box<str>) -> MatchField,
    budget: &mut Budget,
) -> Result<Box<[ValueMatch]>, MatchError> {
    let compile = |source: &wire::ValueMatch| {
        ValueMatch::compile(source, budget)
            .map_err(|error| MatchError { field: field(source.name.as_str().into()), error })
    };
    sources.iter().map(compile).collect()
}
