//! The target of a request: path and query.
//!
//! In:  the target as the client sent it.
//! Out: the target that the router and the backend both use, or [`Malformed`].
//!
//! Dot segments are resolved, also where they are written as `%2e`. Nothing else is decoded:
//! `%2F` is not a separator, and repeated slashes stay.
//!
//! ```
//! use ghost_core::target::{self, Malformed};
//!
//! let target = target::normalise(b"/public/%2e%2e/admin?next=/../x", b"GET")?;
//! assert_eq!(&*target, b"/admin?next=/../x");
//! assert_eq!(target::split(&target), (&b"/admin"[..], Some(&b"next=/../x"[..])));
//! assert_eq!(target::normalise(b"admin", b"GET"), Err(Malformed));
//! # Ok::<(), Malformed>(())
//! ```

use std::borrow::Cow;
use std::fmt;

use crate::wire::{self, RejectedText};

/// The request target is malformed; a proxy answers it with 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed request target")
    }
}

impl std::error::Error for Malformed {}

/// Validate a request target and resolve the dot segments of its path. It allocates only if
/// there are any.
///
/// # Errors
/// The target neither begins with "/" nor is the "*" of OPTIONS, or it has a "#", which
/// clients never send.
pub fn normalise<'t>(target: &'t [u8], method: &[u8]) -> Result<Cow<'t, [u8]>, Malformed> {
    let is_path = target.first() == Some(&b'/');
    if (!is_path && (target, method) != (b"*", b"OPTIONS")) || target.contains(&b'#') {
        return Err(Malformed);
    }
    let (path, _) = split(target);
    if !path.split(|&byte| byte == b'/').any(|segment| dots(segment).is_some()) {
        return Ok(Cow::Borrowed(target));
    }
    let mut resolved = resolve(path);
    resolved.extend_from_slice(&target[path.len()..]);
    Ok(Cow::Owned(resolved))
}

/// What a Gateway asks of paths, beyond what HTTP does.
#[derive(Clone, Debug, Default)]
pub struct PathRules {
    merge_slashes: bool,
    reject: Box<[RejectedText]>,
}

impl PathRules {
    /// Those of a Gateway.
    #[must_use]
    pub fn new(rules: &wire::RequestRules) -> Self {
        Self { merge_slashes: rules.merge_slashes, reject: rules.reject.clone().into() }
    }

    /// Validate a target and merge the slashes of its path, before [`normalise`]. It allocates
    /// only if there are slashes to merge.
    ///
    /// # Errors
    /// The path contains a text that the Gateway rejects.
    pub fn apply<'t>(&self, target: &'t [u8]) -> Result<Cow<'t, [u8]>, Malformed> {
        let (path, _) = split(target);
        if self.reject.iter().any(|text| contains(path, *text)) {
            return Err(Malformed);
        }
        if !self.merge_slashes || !path.windows(2).any(|pair| pair == b"//") {
            return Ok(Cow::Borrowed(target));
        }
        let mut merged = path.to_vec();
        merged.dedup_by(|after, before| (*before, *after) == (b'/', b'/'));
        merged.extend_from_slice(&target[path.len()..]);
        Ok(Cow::Owned(merged))
    }
}

fn contains(path: &[u8], text: RejectedText) -> bool {
    let encoded = |byte: &[u8]| path.windows(3).any(|three| three.eq_ignore_ascii_case(byte));
    match text {
        RejectedText::EncodedSlash => encoded(b"%2f"),
        RejectedText::EncodedBackslash => encoded(b"%5c"),
        RejectedText::ParentWithParameter => path.split(|&byte| byte == b'/').any(|segment| {
            let mut parts = segment.split(|&byte| byte == b';');
            parts.next().is_some_and(|name| dots(name) == Some(2)) && parts.next().is_some()
        }),
    }
}

/// Split an absolute target (`http://authority/path`) into its authority and what follows.
#[must_use]
pub fn split_absolute(target: &[u8]) -> Option<(&[u8], &[u8])> {
    let begins_with = |scheme: &[u8]| {
        target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    let scheme = [&b"http://"[..], b"https://"].into_iter().find(|scheme| begins_with(scheme))?;
    let rest = &target[scheme.len()..];
    let end = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
    Some(rest.split_at(end))
}

/// Split a target at the first "?" into path and query.
#[must_use]
pub fn split(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match target.iter().position(|&byte| byte == b'?') {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    }
}

/// Join path and query to a target.
#[must_use]
pub fn join(mut path: Vec<u8>, query: Option<&[u8]>) -> Vec<u8> {
    if let Some(query) = query {
        path.push(b'?');
        path.extend_from_slice(query);
    }
    path
}

/// RFC 3986, section 5.2.4, on a path that begins with "/".
fn resolve(path: &[u8]) -> Vec<u8> {
    let mut resolved = Vec::with_capacity(path.len());
    let mut segments = path.split(|&byte| byte == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let dots = dots(segment);
        if dots == Some(2) {
            let parent = resolved.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            resolved.truncate(parent);
        }
        if dots.is_none() {
            resolved.push(b'/');
            resolved.extend_from_slice(segment);
        } else if segments.peek().is_none() {
            resolved.push(b'/');
        }
    }
    resolved
}

/// 1 for ".", 2 for "..", each dot perhaps written as "%2e"; None for any other segment.
fn dots(mut segment: &[u8]) -> Option<usize> {
    let mut count = 0;
    while !segment.is_empty() {
        segment = match segment {
            [b'.', rest @ ..] | [b'%', b'2', b'e' | b'E', rest @ ..] => rest,
            _ => return None,
        };
        count += 1;
    }
    (1..=2).contains(&count).then_some(count)
}
