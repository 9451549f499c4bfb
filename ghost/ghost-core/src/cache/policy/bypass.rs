//! Which requests pass the cache.

use std::fmt;

use super::super::headers::Headers;
use super::super::key::cookies::cookies;
use super::super::status::Forward;
use super::super::syntax::is_token;
use super::super::syntax::list::members;
use super::{bounded, Globs, Policy, PolicyError, Survey};
use crate::budget::Budget;
use crate::pattern::Pattern;
use crate::steps::{OverBudget, Steps};
use crate::wire;

/// Conditions of a policy under which a request passes the cache.
///
/// ```
/// use ghost_core::cache::{BypassReason, Policy, Survey};
/// use ghost_core::wire::{self, CachePolicy};
/// use ghost_core::Steps;
///
/// let policy: CachePolicy = wire::decode(br#"{"defaultTTL": 1000,
///     "bypass": {"cookies": ["session*"], "headers": [{"name": "X-Debug", "valueRegex": "on|yes"}]}}"#)?;
/// let policy = Policy::compile(&policy)?;
/// let cookie = [("Cookie", &b"theme=dark; session_id=1"[..])];
/// let debug = |value| [("x-debug", value)];
/// let (none, steps) = (Survey::default(), Steps::of_request());
/// assert_eq!(policy.bypass_reason(b"GET", none, &cookie, &steps)?, Some(BypassReason::Cookie));
/// assert_eq!(policy.bypass_reason(b"GET", none, &debug(&b"on"[..]), &steps)?, Some(BypassReason::Header));
/// assert_eq!(policy.bypass_reason(b"POST", none, &cookie, &steps)?, Some(BypassReason::Method));
/// assert_eq!(policy.bypass_reason(b"GET", none, &debug(&b"off"[..]), &steps)?, None);
/// let body = Survey { body: true, ..none };
/// assert_eq!(policy.bypass_reason(b"GET", body, &cookie, &steps)?, Some(BypassReason::Body));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Bypass {
    headers: Box<[(Box<str>, Option<Pattern>)]>,
    cookies: Globs,
    methods: Box<[Box<str>]>,
}

/// Why a request passes the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BypassReason {
    /// The connection may become a WebSocket.
    Upgrade,
    /// Responses to its method are not cached.
    Method,
    /// Only the origin can evaluate its precondition.
    Precondition,
    /// It has a body, which is not part of the key.
    Body,
    /// Connection names a header of the key, so that the origin doesn't get it.
    HiddenKey,
    /// `bypass.methods` names its method.
    BypassedMethod,
    /// `bypass.headers` names one of its headers.
    Header,
    /// `bypass.cookies` names one of its cookies.
    Cookie,
}

impl BypassReason {
    /// One word, which never changes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Upgrade => "upgrade",
            Self::Method => "method",
            Self::Precondition => "precondition",
            Self::Body => "request-body",
            Self::HiddenKey => "hidden-key",
            Self::BypassedMethod => "bypass-method",
            Self::Header => "bypass-header",
            Self::Cookie => "bypass-cookie",
        }
    }

    /// For Cache-Status.
    #[must_use]
    pub fn forward(self) -> Forward {
        match self {
            Self::Method => Forward::Method,
            Self::Precondition | Self::Body | Self::HiddenKey => Forward::Request,
            Self::Upgrade | Self::BypassedMethod | Self::Header | Self::Cookie => Forward::Bypass,
        }
    }
}

impl fmt::Display for BypassReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Upgrade => "the connection may become a WebSocket",
            Self::Method => "the cache answers GET and HEAD (RFC 9111, section 4)",
            Self::Precondition => {
                "only the origin evaluates If-Match and If-Unmodified-Since (RFC 9111, section 4.3.2)"
            }
            Self::Body => "the body of the request isn't part of the key",
            Self::HiddenKey => {
                "Connection names a header of the key, which the origin therefore doesn't get"
            }
            Self::BypassedMethod => "the policy's bypass.methods has the method",
            Self::Header => "the policy's bypass.headers has a header of the request",
            Self::Cookie => "the policy's bypass.cookies has a cookie of the request",
        })
    }
}

impl Policy {
    /// Why a request passes the cache; None if the cache may answer it. The proxy and the tool
    /// that explains it ask here.
    ///
    /// # Errors
    /// The policy's bypass takes more [`steps`](crate::steps) than the request has left.
    pub fn bypass_reason(
        &self,
        method: &[u8],
        survey: Survey,
        request: &impl Headers,
        steps: &Steps,
    ) -> Result<Option<BypassReason>, OverBudget> {
        let is_cached = matches!(method, b"GET" | b"HEAD");
        match survey {
            Survey { upgrade: true, .. } => Ok(Some(BypassReason::Upgrade)),
            _ if !is_cached => Ok(Some(BypassReason::Method)),
            Survey { precondition: true, .. } => Ok(Some(BypassReason::Precondition)),
            Survey { body: true, .. } => Ok(Some(BypassReason::Body)),
            _ if self.hides_key(request) => Ok(Some(BypassReason::HiddenKey)),
            _ => self.bypass.reason(method, request, steps),
        }
    }

    /// Whether Connection names a header of the key: the response would be stored for a value that
    /// the origin never got.
    fn hides_key(&self, request: &impl Headers) -> bool {
        let is_keyed = |name: &[u8]| {
            let is = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
            self.key.headers.iter().any(|header| is(header))
                || (is("cookie") && !self.key.cookies.is_empty())
        };
        let is_simple = self.key.headers.is_empty() && self.key.cookies.is_empty();
        !is_simple
            && request.values("connection").flat_map(members).any(|member| is_keyed(member.text))
    }
}

impl Bypass {
    pub(super) fn compile(source: &wire::Bypass, budget: &mut Budget) -> Result<Self, PolicyError> {
        bounded(&source.headers, "bypass.headers")?;
        bounded(&source.methods, "bypass.methods")?;
        let headers = source.headers.iter().enumerate().map(|(index, header)| {
            let field = |name| format!("bypass.headers[{index}].{name}");
            let name = field_name(&header.name, &field("name"))?;
            let compile = |source: &String| {
                let invalid = |error: crate::PatternError| {
                    PolicyError::new(field("valueRegex"), error.to_string())
                };
                budget.compile(source).map_err(invalid)
            };
            Ok((name, header.value_regex.as_ref().map(compile).transpose()?))
        });
        let headers = headers.collect::<Result<_, PolicyError>>()?;
        Ok(Self {
            headers,
            cookies: Globs::compile(&source.cookies, "bypass.cookies", budget)?,
            methods: source.methods.iter().map(|method| method.as_str().into()).collect(),
        })
    }

    /// The first condition that a request meets.
    fn reason(
        &self,
        method: &[u8],
        request: &impl Headers,
        steps: &Steps,
    ) -> Result<Option<BypassReason>, OverBudget> {
        if self.methods.iter().any(|name| name.as_bytes() == method) {
            return Ok(Some(BypassReason::BypassedMethod));
        }
        for (name, pattern) in &self.headers {
            let meets =
                |value| pattern.as_ref().is_none_or(|pattern| pattern.matches_within(value, steps));
            let met = steps.seek_header()
                && request.values(name).any(|value| !steps.are_exceeded() && meets(value));
            if steps.decided(met, OverBudget::Header)? {
                return Ok(Some(BypassReason::Header));
            }
        }
        let named = |name: &[u8]| !steps.are_exceeded() && self.cookies.matches_within(name, steps);
        let met = !self.cookies.is_empty() && cookies(request).any(|(name, _)| named(name));
        steps.decided(met.then_some(BypassReason::Cookie), OverBudget::Header)
    }
}

/// The name of a header in lower case.
pub(in super::super) fn field_name(name: &str, field: &str) -> Result<Box<str>, PolicyError> {
    let error = || PolicyError::new(field, format!("{name:?} is not the name of a header"));
    is_token(name.as_bytes()).then(|| name.to_ascii_lowercase().into()).ok_or_else(error)
}
