//! What a response to an unsafe method invalidates (RFC 9111, section 4.4).
//!
//! In:  the request's method and URI, and the head of its response.
//! Out: up to three targets of the same origin: the request's own, that of Location, and that
//!      of Content-Location. Another origin is never invalidated: it could be made to lose its
//!      cache.
//!
//! ```
//! use ghost_core::cache::invalidation::{targets, Base};
//!
//! let base = Base { https: true, host: b"tea.example.com", port: 443, target: b"/orders/new?x=1" };
//! let response = [("Location", &b"17"[..]), ("Content-Location", b"https://tea.example.com:443/list")];
//! let found: Vec<_> = targets(b"POST", &base, 201, &response).collect();
//! assert_eq!(found, [&b"/orders/new?x=1"[..], b"/orders/17", b"/list"]);
//! assert_eq!(targets(b"POST", &base, 500, &response).count(), 0);
//! assert_eq!(targets(b"GET", &base, 200, &response).count(), 0);
//! ```

use std::borrow::Cow;

use super::headers::Headers;
use crate::host::Host;
use crate::target;

/// Longer references invalidate nothing.
const MAX_REFERENCE: usize = 8 << 10;

/// The URI of a request.
#[derive(Clone, Copy, Debug)]
pub struct Base<'a> {
    /// Whether its scheme is https.
    pub https: bool,
    /// As [`Host`] normalises it.
    pub host: &'a [u8],
    /// The port of the URI.
    pub port: u16,
    /// Path and query, with dot segments resolved.
    pub target: &'a [u8],
}

/// Whether requests with this method leave resources as they are (RFC 9110, section 9.2.1;
/// RFC 10008). A method that the cache doesn't know may change them.
#[must_use]
pub fn is_safe(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"QUERY")
}

/// The targets, each path with query, that a response invalidates. Nothing if the method is
/// safe or the response is an error.
pub fn targets<'a>(
    method: &[u8],
    base: &Base<'a>,
    status: u16,
    response: &'a impl Headers,
) -> impl Iterator<Item = Cow<'a, [u8]>> {
    let applies = !is_safe(method) && matches!(status, 200..=399);
    let base = *base;
    let named = ["location", "content-location"].into_iter().filter_map(move |name| {
        let reference = response.only(name)?;
        resolve(&base, reference.trim_ascii()).map(Cow::Owned)
    });
    let own = Some(Cow::Borrowed(base.target));
    own.into_iter().chain(named).filter(move |_| applies)
}

/// The path and query that a reference leads to (RFC 3986, section 5.2); None if it leaves the
/// origin or is malformed.
///
/// ```
/// use ghost_core::cache::invalidation::{resolve, Base};
///
/// let base = Base { https: false, host: b"a.example", port: 80, target: b"/b/c/d?q" };
/// let cases: [(&[u8], Option<&[u8]>); 7] = [
///     (b"../g", Some(b"/b/g")),
///     (b"?y", Some(b"/b/c/d?y")),
///     (b"", Some(b"/b/c/d?q")),
///     (b"//A.example:80/x#f", Some(b"/x")),
///     (b"http://a.example", Some(b"/")),
///     (b"https://a.example/x", None),
///     (b"//b.example/x", None),
/// ];
/// for (reference, expected) in cases {
///     assert_eq!(resolve(&base, reference).as_deref(), expected);
/// }
/// ```
#[must_use]
pub fn resolve(base: &Base<'_>, reference: &[u8]) -> Option<Vec<u8>> {
    if reference.len() > MAX_REFERENCE {
        return None;
    }
    let fragment = reference.iter().position(|&byte| byte == b'#').unwrap_or(reference.len());
    let reference = relative(base, &reference[..fragment])?;
    let (base_path, _) = target::split(base.target);
    let joined = match reference {
        Relative::Target(rest) => match rest {
            [b'/', ..] => rest.to_vec(),
            rest => [b"/", rest].concat(),
        },
        Relative::Reference(b"") => base.target.to_vec(),
        Relative::Reference(query @ [b'?', ..]) => [base_path, query].concat(),
        Relative::Reference(path @ [b'/', ..]) => path.to_vec(),
        Relative::Reference(path) => {
            let directory = base_path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
            [&base_path[..directory], path].concat()
        }
    };
    target::normalise(&joined, b"GET").ok().map(Cow::into_owned)
}

enum Relative<'a> {
    /// What follows the authority.
    Target(&'a [u8]),
    /// A reference without an authority.
    Reference(&'a [u8]),
}

/// The reference without scheme and authority; None if these are of another origin.
fn relative<'a>(base: &Base<'_>, reference: &'a [u8]) -> Option<Relative<'a>> {
    let (scheme, rest) = split_scheme(reference);
    let own: &[u8] = if base.https { b"https" } else { b"http" };
    if scheme.is_some_and(|scheme| !scheme.eq_ignore_ascii_case(own)) {
        return None;
    }
    let Some(rest) = rest.strip_prefix(b"//") else {
        // "http:path" is malformed.
        return scheme.is_none().then_some(Relative::Reference(rest));
    };
    let end = rest.iter().position(|byte| b"/?".contains(byte)).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    is_own(base, authority).then_some(Relative::Target(rest))
}

fn split_scheme(reference: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let end = reference.iter().position(|byte| b":/?".contains(byte));
    match end.filter(|&at| reference[at] == b':') {
        Some(at) => (Some(&reference[..at]), &reference[at + 1..]),
        None => (None, reference),
    }
}

/// Whether an authority is that of the base.
fn is_own(base: &Base<'_>, authority: &[u8]) -> bool {
    let Ok(host) = Host::parse(authority) else { return false };
    let well_known = if base.https { 443 } else { 80 };
    let after_host = authority.iter().rposition(|&byte| byte == b']').map_or(0, |at| at + 1);
    let colon = authority[after_host..].iter().position(|&byte| byte == b':');
    let port = colon.map(|at| &authority[after_host + at + 1..]).filter(|port| !port.is_empty());
    let port = port.map_or(Some(well_known), |text| std::str::from_utf8(text).ok()?.parse().ok());
    !host.is_empty() && *host == *base.host && port == Some(base.port)
}
