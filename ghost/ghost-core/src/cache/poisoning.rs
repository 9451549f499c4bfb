//! Headers of requests that must not reach the origin of a cached rule.
//!
//! In:  the name of a header and the policy of the rule.
//! Out: whether the header is forwarded, is part of the key, or is removed.
//!
//! An origin may let a header change its response without a word in Vary. If the header is
//! not in the key either, one client decides what all others receive. These headers are known
//! for it: frameworks read them, and browsers never send them. A policy that puts one into
//! its key says that the origin reads it, and then it is forwarded.
//!
//! ```
//! use ghost_core::cache::poisoning::{treatment, Treatment};
//! use ghost_core::cache::Policy;
//! use ghost_core::wire::{self, CachePolicy};
//!
//! let policy: CachePolicy = wire::decode(br#"{"defaultTTL": 1000, "cacheKey": {"headers": ["X-Host"]}}"#)?;
//! let policy = Policy::compile(&policy)?;
//! assert_eq!(treatment(&policy, b"X-Original-URL"), Treatment::Remove);
//! assert_eq!(treatment(&policy, b"x-host"), Treatment::Keyed);
//! assert_eq!(treatment(&policy, b"Accept"), Treatment::Forward);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::headers::Headers;
use super::key::cookies::cookies;
use super::policy::Policy;
use crate::wire::RequestCookies;

/// What becomes of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// The origin gets it.
    Forward,
    /// The origin gets it, and it is part of the key.
    Keyed,
    /// The origin gets the cookies that are part of the key, and no others.
    KeyedCookies,
    /// The origin doesn't get it.
    Remove,
}

/// In lower case and in order. The gateway writes X-Forwarded-For and X-Forwarded-Proto
/// itself; the latter is in the key by the scheme.
const SUSPICIOUS: [&str; 37] = [
    "base-url",
    "client-ip",
    "forwarded",
    "front-end-https",
    "http-host",
    "proxy",
    "request-uri",
    "true-client-ip",
    "x-backend-host",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-envoy-original-host",
    "x-envoy-original-path",
    "x-forwarded-by",
    "x-forwarded-host",
    "x-forwarded-path",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-protocol",
    "x-forwarded-scheme",
    "x-forwarded-server",
    "x-forwarded-ssl",
    "x-forwarded-uri",
    "x-host",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-host",
    "x-original-uri",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-uri",
    "x-rewrite-url",
    "x-scheme",
    "x-script-name",
    "x-url-scheme",
];
/// Frameworks use these between their own parts.
const SUSPICIOUS_PREFIXES: [&str; 2] = ["x-invoke-", "x-middleware-"];

/// What becomes of a header of a request under this policy. The caller applies it to what a
/// client sent, before the gateway adds headers of its own.
#[must_use]
pub fn treatment(policy: &Policy, name: &[u8]) -> Treatment {
    let is = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
    if policy.key.headers.iter().any(|header| is(header)) {
        return Treatment::Keyed;
    }
    if is("cookie") && policy.request_cookies == RequestCookies::Remove {
        return Treatment::KeyedCookies;
    }
    if is_suspicious(name) {
        return Treatment::Remove;
    }
    Treatment::Forward
}

/// The cookies that the origin gets where it gets [those of the key](Treatment::KeyedCookies), as
/// the value of one header.
///
/// ```
/// use ghost_core::cache::poisoning::keyed_cookies;
/// use ghost_core::cache::Policy;
/// use ghost_core::wire::{self, CachePolicy};
///
/// let policy: CachePolicy = wire::decode(br#"{"defaultTTL": 1000, "cacheKey": {"cookies": ["a", "c"]}}"#)?;
/// let policy = Policy::compile(&policy)?;
/// let request = [("Cookie", &b"a=1; b=2"[..]), ("cookie", b"c=3")];
/// assert_eq!(keyed_cookies(&policy, &request), b"a=1; c=3");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn keyed_cookies(policy: &Policy, request: &impl Headers) -> Vec<u8> {
    let mut kept = Vec::new();
    for (name, value) in cookies(request).filter(|(name, _)| policy.key.has_cookie(name)) {
        if !kept.is_empty() {
            kept.extend_from_slice(b"; ");
        }
        kept.extend_from_slice(name);
        kept.push(b'=');
        kept.extend_from_slice(value);
    }
    kept
}

/// Servers that pass headers on as variables take "_" for "-".
fn is_suspicious(name: &[u8]) -> bool {
    let fold = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    let begins = |known: &str| name.iter().map(fold).take(known.len()).eq(known.bytes());
    SUSPICIOUS.iter().any(|known| known.len() == name.len() && begins(known))
        || SUSPICIOUS_PREFIXES.iter().any(|prefix| begins(prefix))
}
