//! The key of an object: what requests have in common that get the same response.
//!
//! In:  a request, the rule that serves it, and the policy of that rule.
//! Out: bytes in the caller's buffer. Equal bytes mean equal inputs: each part is preceded by
//!      its length, so that no two requests meet by concatenation.
//!
//! Rule, listener, scheme, host, port and path are always part of it, in this order; a policy may
//! leave out listener and scheme. Nothing allocates but a query of more than 64 parameters.
//!
//! ```
//! use ghost_core::cache::key::{self, KeyRequest};
//! use ghost_core::cache::Policy;
//! use ghost_core::wire::{self, CachePolicy};
//! use ghost_core::Steps;
//!
//! let policy: CachePolicy = wire::decode(br#"{"defaultTTL": 60000, "cacheKey": {
//!     "cookies": ["theme"], "queryParameters": {"exclude": ["utm_*"]}}}"#)?;
//! let policy = Policy::compile(&policy)?;
//! let key = |query: &[u8], cookies: &[u8]| {
//!     let request = KeyRequest {
//!         rule: "shop/tea/0", listener: "web", https: true,
//!         host: b"tea.example.com", port: None, path: b"/list", query: Some(query),
//!         headers: &[("Cookie", cookies)],
//!     };
//!     let mut buffer = Vec::new();
//!     key::write(&policy.key, &request, &Steps::of_request(), &mut buffer).map(|()| buffer)
//! };
//! assert_eq!(key(b"a=1&b=2&utm_source=x", b"id=1; theme=dark"), key(b"b=2&a=1", b"theme=dark"));
//! assert_ne!(key(b"a=1", b"theme=dark"), key(b"a=1", b"theme=light"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod cookies;
mod parts;
pub mod query;

pub use parts::describe;
use parts::{walk, Parts};
pub use query::{QueryPolicy, Shape};

use super::headers::Headers;
use super::policy::{bounded, field_name, PolicyError};
use crate::budget::Budget;
use crate::steps::{OverBudget, Steps};
use crate::wire;

/// The part of a policy that decides about keys.
#[derive(Clone, Debug)]
pub struct KeyPolicy {
    /// Names of headers in lower case, in order.
    pub headers: Box<[Box<str>]>,
    /// Names of cookies, in order.
    pub cookies: Box<[Box<str>]>,
    /// Which query parameters count.
    pub query: QueryPolicy,
    /// Whether the scheme counts.
    pub scheme: bool,
    /// Whether the listener counts.
    pub listener: bool,
}

/// What the key of a request is made from.
#[derive(Clone, Copy, Debug)]
pub struct KeyRequest<'a, H: ?Sized> {
    /// The [identity](crate::Rule::identity) of the rule.
    pub rule: &'a str,
    /// The name of the listener.
    pub listener: &'a str,
    /// Whether the client used HTTPS.
    pub https: bool,
    /// As [`Host`](crate::Host) normalises it.
    pub host: &'a [u8],
    /// As [`port`] returns it.
    pub port: Option<&'a [u8]>,
    /// As [`target::normalise`](crate::target::normalise) resolves it.
    pub path: &'a [u8],
    /// What follows "?".
    pub query: Option<&'a [u8]>,
    /// The headers.
    pub headers: &'a H,
}

impl KeyPolicy {
    pub(super) fn compile(
        source: &wire::CacheKey,
        budget: &mut Budget,
    ) -> Result<Self, PolicyError> {
        bounded(&source.headers, "cacheKey.headers")?;
        bounded(&source.cookies, "cacheKey.cookies")?;
        let name = |(index, name): (usize, &String)| {
            field_name(name, &format!("cacheKey.headers[{index}]"))
        };
        let headers = source.headers.iter().enumerate().map(name);
        let cookies = source.cookies.iter().enumerate().map(|(index, name)| {
            let valid = !name.is_empty() && !name.bytes().any(|byte| b"=; \t".contains(&byte));
            let error = || {
                let message = format!("{name:?} is not the name of a cookie");
                PolicyError::new(format!("cacheKey.cookies[{index}]"), message)
            };
            valid.then(|| name.as_str().into()).ok_or_else(error)
        });
        Ok(Self {
            headers: in_order(headers.collect::<Result<_, PolicyError>>()?),
            cookies: in_order(cookies.collect::<Result<_, PolicyError>>()?),
            query: QueryPolicy::compile(&source.query_parameters, budget)?,
            scheme: source.scheme,
            listener: source.listener,
        })
    }

    /// Whether a header of this name is part of the key.
    #[must_use]
    pub fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|header| header.eq_ignore_ascii_case(name))
    }

    /// Whether a cookie of this name is part of the key.
    #[must_use]
    pub fn has_cookie(&self, name: &[u8]) -> bool {
        self.cookies.iter().any(|cookie| cookie.as_bytes() == name)
    }
}

/// The order in which a user wrote names is irrelevant.
fn in_order(mut names: Vec<Box<str>>) -> Box<[Box<str>]> {
    names.sort_unstable();
    names.dedup();
    names.into()
}

/// The port in a Host header, unless it is that of the scheme. The origin gets it, and may
/// repeat it in what it sends.
///
/// ```
/// use ghost_core::cache::key::port;
///
/// assert_eq!(port(b"example.com:8080", false), Some(&b"8080"[..]));
/// assert_eq!(port(b"[::1]:443", true), None);
/// assert_eq!(port(b"[::1]", true), None);
/// ```
#[must_use]
pub fn port(host: &[u8], https: bool) -> Option<&[u8]> {
    let colon = host.iter().rposition(|&byte| byte == b':')?;
    let (port, default) = (&host[colon + 1..], if https { &b"443"[..] } else { b"80" });
    let is_port = !port.is_empty() && port.iter().all(u8::is_ascii_digit);
    // The last part of an IPv6 address without brackets is none, but `Host` rejects these.
    (is_port && port != default).then_some(port)
}

/// Write the key of a request to the end of `to`.
///
/// # Errors
/// The globs of query parameters take more [`steps`](crate::steps) than the request has left: it
/// has no key.
pub fn write<H: Headers>(
    policy: &KeyPolicy,
    request: &KeyRequest<'_, H>,
    steps: &Steps,
    to: &mut Vec<u8>,
) -> Result<(), OverBudget> {
    walk(policy, request, steps, &mut Writer { to, shown: None })
}

/// Gives a number that stands for a value.
pub type Hide = dyn Fn(&[u8]) -> u64;

/// The key of a request as clients may see it: with a number in place of the value of each header
/// and cookie. A script on a page may read the response, but not every cookie.
pub struct Shown<'a> {
    /// Gets the key.
    pub to: &'a mut Vec<u8>,
    /// Makes the numbers.
    pub hide: &'a Hide,
}

/// Write the key of a request as [`write`] does, and the same as clients may see it. That takes
/// no more steps.
///
/// # Errors
/// As of [`write`].
pub fn write_and_show<H: Headers>(
    policy: &KeyPolicy,
    request: &KeyRequest<'_, H>,
    steps: &Steps,
    to: &mut Vec<u8>,
    shown: Shown<'_>,
) -> Result<(), OverBudget> {
    walk(policy, request, steps, &mut Writer { to, shown: Some(shown) })
}

/// Writes parts that are told apart by their length.
struct Writer<'a> {
    to: &'a mut Vec<u8>,
    shown: Option<Shown<'a>>,
}

impl Writer<'_> {
    /// In decimal digits and a colon, so that a key is text if its parts are.
    fn count(&mut self, count: usize) {
        let mut digits = [0; 20];
        let (mut at, mut rest) = (digits.len(), count);
        loop {
            at -= 1;
            // below ten, so it fits
            #[allow(clippy::cast_possible_truncation)]
            let digit = (rest % 10) as u8;
            digits[at] = b'0' + digit;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.text(&digits[at..]);
        self.text(b":");
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.text(bytes);
    }

    /// A byte that is no digit, so that it can't be taken for a length.
    fn tag(&mut self, tag: u8) {
        self.text(&[tag]);
    }

    fn text(&mut self, text: &[u8]) {
        self.to.extend_from_slice(text);
        if let Some(shown) = &mut self.shown {
            shown.to.extend_from_slice(text);
        }
    }

    /// A name, how many values it has, and these.
    fn named<'v, I: Iterator<Item = &'v [u8]>>(&mut self, name: &str, values: impl Fn() -> I) {
        self.bytes(name.as_bytes());
        self.count(values().count());
        values().for_each(|value| self.value(value));
    }

    fn value(&mut self, value: &[u8]) {
        let mut shown = self.shown.take();
        self.bytes(value);
        if let Some(Shown { to, hide }) = &mut shown {
            let number = format!("{:016x}", hide(value));
            Writer { to, shown: None }.bytes(number.as_bytes());
        }
        self.shown = shown;
    }
}

impl Parts for Writer<'_> {
    fn rule(&mut self, rule: &str) {
        self.bytes(rule.as_bytes());
    }

    fn listener(&mut self, listener: Option<&str>) {
        match listener {
            Some(listener) => self.bytes(listener.as_bytes()),
            None => self.tag(b'-'),
        }
    }

    fn scheme(&mut self, https: Option<bool>) {
        self.tag(match https {
            None => b'-',
            Some(false) => b'p',
            Some(true) => b's',
        });
    }

    fn host(&mut self, host: &[u8]) {
        self.bytes(host);
    }

    fn port(&mut self, port: &[u8]) {
        self.tag(b':');
        self.bytes(port);
    }

    fn path(&mut self, path: &[u8]) {
        self.bytes(path);
    }

    fn query<'q>(&mut self, parameters: Option<impl ExactSizeIterator<Item = &'q [u8]>>) {
        match parameters {
            None => self.count(0),
            Some(parameters) => {
                // 0 is a missing query, and 1 an empty one.
                self.count(parameters.len() + 1);
                parameters.for_each(|parameter| self.bytes(parameter));
            }
        }
    }

    fn header<'v, I: Iterator<Item = &'v [u8]>>(&mut self, name: &str, values: impl Fn() -> I) {
        self.tag(b'h');
        self.named(name, values);
    }

    fn cookie<'v, I: Iterator<Item = &'v [u8]>>(&mut self, name: &str, values: impl Fn() -> I) {
        self.tag(b'c');
        self.named(name, values);
    }
}
