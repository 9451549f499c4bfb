//! Path replacement, for redirects and rewrites alike.
//!
//! In:  a path modifier, the match of the request, and its path.
//! Out: the new path.
//!
//! ```
//! use ghost_core::{rewrite, wire, Match};
//!
//! let matched: wire::Match = wire::decode(br#"{"path": {"type": "prefix", "value": "/tea"}}"#)?;
//! let matched = Match::compile(&matched)?;
//! let prefix: wire::PathModifier = wire::decode(br#"{"type": "prefix", "value": "/drinks/"}"#)?;
//! assert_eq!(rewrite::path(&prefix, &matched, b"/tea/green"), b"/drinks/green");
//! let full: wire::PathModifier = wire::decode(br#"{"type": "full", "value": "/menu"}"#)?;
//! assert_eq!(rewrite::path(&full, &matched, b"/tea/green"), b"/menu");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::matches::{Match, PathPattern};
use crate::wire::{PathModifier, PathModifierType};

/// Apply `modifier` to the `path` of a request that met `matched`. The result begins with
/// "/". A prefix can't be replaced after a match by a regular expression or in the target
/// "*"; then the path stays.
#[must_use]
pub fn path(modifier: &PathModifier, matched: &Match, path: &[u8]) -> Vec<u8> {
    match modifier.r#type {
        PathModifierType::Full => absolute(modifier.value.as_bytes(), b""),
        PathModifierType::Prefix => match prefix_length(matched, path) {
            Some(length) => absolute(modifier.value.as_bytes(), &path[length..]),
            None => path.to_vec(),
        },
    }
}

/// The length of the prefix that the match covers: all of an exact path. A regular expression
/// covers no prefix, and "*" has none.
fn prefix_length(matched: &Match, path: &[u8]) -> Option<usize> {
    match &matched.path {
        PathPattern::Prefix(prefix) if path.starts_with(b"/") => Some(prefix.len().min(path.len())),
        PathPattern::Exact(_) => Some(path.len()),
        PathPattern::Prefix(_) | PathPattern::Regex(_) => None,
    }
}

/// Join `start` and `rest` with exactly one slash between them; `rest` is empty or begins
/// with "/".
fn absolute(start: &[u8], rest: &[u8]) -> Vec<u8> {
    let start = match rest {
        [] => start,
        _ => start.strip_suffix(b"/").unwrap_or(start),
    };
    let mut whole = Vec::with_capacity(start.len() + rest.len() + 1);
    if start.first() != Some(&b'/') && (!start.is_empty() || rest.is_empty()) {
        whole.push(b'/');
    }
    whole.extend_from_slice(start);
    whole.extend_from_slice(rest);
    whole
}
