//! What a key is made from, part by part.
//!
//! One walk over the parts serves all who ask: [`write`](super::write) makes bytes of them,
//! [`write_and_show`](super::write_and_show) also what clients may see, and [`describe`] what people read.

use super::super::headers::Headers;
use super::cookies::cookies;
use super::{KeyPolicy, KeyRequest};
use crate::steps::{OverBudget, Steps};

/// Gets the parts of a key in the order of its methods.
pub(super) trait Parts {
    fn rule(&mut self, rule: &str);
    /// None if the policy leaves it out.
    fn listener(&mut self, listener: Option<&str>);
    /// Whether it is HTTPS; None if the policy leaves it out.
    fn scheme(&mut self, https: Option<bool>);
    fn host(&mut self, host: &[u8]);
    /// Only if it isn't that of the scheme.
    fn port(&mut self, port: &[u8]);
    fn path(&mut self, path: &[u8]);
    /// The parameters that count, in order; None if the request has no query, or none that counts.
    fn query<'q>(&mut self, parameters: Option<impl ExactSizeIterator<Item = &'q [u8]>>);
    fn header<'v, I: Iterator<Item = &'v [u8]>>(&mut self, name: &str, values: impl Fn() -> I);
    fn cookie<'v, I: Iterator<Item = &'v [u8]>>(&mut self, name: &str, values: impl Fn() -> I);
}

/// Give the parts of the key of a request.
pub(super) fn walk<H: Headers>(
    policy: &KeyPolicy,
    request: &KeyRequest<'_, H>,
    steps: &Steps,
    to: &mut impl Parts,
) -> Result<(), OverBudget> {
    to.rule(request.rule);
    to.listener(policy.listener.then_some(request.listener));
    to.scheme(policy.scheme.then_some(request.https));
    to.host(request.host);
    if let Some(port) = request.port {
        to.port(port);
    }
    to.path(request.path);
    policy.query.give(request.query, steps, to)?;
    // Most policies have none of these, and a short key is quickly hashed.
    for name in &policy.headers {
        to.header(name, || request.headers.values(name));
    }
    for name in &policy.cookies {
        let named = |(key, _): &(&[u8], &[u8])| *key == name.as_bytes();
        to.cookie(name, || cookies(request.headers).filter(named).map(|(_, value)| value));
    }
    Ok(())
}

/// The parts of the key of a request by their names, for people.
///
/// # Errors
/// As of [`write`](super::write).
///
/// ```
/// use ghost_core::cache::key::{self, KeyRequest};
/// use ghost_core::cache::Policy;
/// use ghost_core::wire::{self, CachePolicy};
/// use ghost_core::Steps;
///
/// let policy: CachePolicy = wire::decode(br#"{"defaultTTL": 60000, "cacheKey": {
///     "listener": false, "cookies": ["theme"], "queryParameters": {"exclude": ["utm_*"]}}}"#)?;
/// let policy = Policy::compile(&policy)?;
/// let request = KeyRequest {
///     rule: "shop/tea/0", listener: "web", https: true, host: b"tea.example.com",
///     port: key::port(b"tea.example.com:8443", true), path: b"/list",
///     query: Some(b"b=2&utm_source=x&a=1"), headers: &[("Cookie", &b"theme=dark"[..])],
/// };
/// let parts = key::describe(&policy.key, &request, &Steps::of_request())?;
/// let parts: Vec<_> = parts.iter().map(|(name, value)| (&**name, &**value)).collect();
/// assert_eq!(parts, [
///     ("rule", "shop/tea/0"), ("scheme", "https"), ("host", "tea.example.com"),
///     ("port", "8443"), ("path", "/list"), ("query", "a=1&b=2"), ("cookie theme", "dark"),
/// ]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn describe<H: Headers>(
    policy: &KeyPolicy,
    request: &KeyRequest<'_, H>,
    steps: &Steps,
) -> Result<Vec<(String, String)>, OverBudget> {
    let mut described = Described(Vec::new());
    walk(policy, request, steps, &mut described)?;
    Ok(described.0)
}

struct Described(Vec<(String, String)>);

impl Described {
    fn add(&mut self, name: &str, value: &[u8]) {
        self.0.push((name.to_owned(), String::from_utf8_lossy(value).into_owned()));
    }

    fn add_all<'v>(&mut self, name: &str, values: impl Iterator<Item = &'v [u8]>, between: &[u8]) {
        self.add(name, &values.collect::<Vec<_>>().join(between));
    }
}

impl Parts for Described {
    fn rule(&mut self, rule: &str) {
        self.add("rule", rule.as_bytes());
    }

    fn listener(&mut self, listener: Option<&str>) {
        if let Some(listener) = listener {
            self.add("listener", listener.as_bytes());
        }
    }

    fn scheme(&mut self, https: Option<bool>) {
        if let Some(https) = https {
            self.add("scheme", if https { b"https" } else { b"http" });
        }
    }

    fn host(&mut self, host: &[u8]) {
        self.add("host", host);
    }

    fn port(&mut self, port: &[u8]) {
        self.add("port", port);
    }

    fn path(&mut self, path: &[u8]) {
        self.add("path", path);
    }

    fn query<'q>(&mut self, parameters: Option<impl ExactSizeIterator<Item = &'q [u8]>>) {
        if let Some(parameters) = parameters {
            self.add_all("query", parameters, b"&");
        }
    }

    fn header<'v, I: Iterator<Item = &'v [u8]>>(&mut self, name: &str, values: impl Fn() -> I) {
        self.add_all(&format!("header {name}"), values(), b", ");
    }

    fn cookie<'v, I: Iterator<Item = &'v [u8]>>(&mut self, name: &str, values: impl Fn() -> I) {
        self.add_all(&format!("cookie {name}"), values(), b", ");
    }
}
