//! How a path is replaced, for redirects and rewrites alike.

use crate::matches::{Match, PathPattern};
use crate::wire::{PathModifier, PathModifierType};

/// The path that `modifier` makes of `path`, which `matched` matched. It begins with "/".
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

/// How much of `path` is the prefix that a match took: with an exact match all of it; with
/// a regular expression, and of "*", there is none.
fn prefix_length(matched: &Match, path: &[u8]) -> Option<usize> {
    match &matched.path {
        PathPattern::Prefix(prefix) if path.starts_with(b"/") => Some(prefix.len().min(path.len())),
        PathPattern::Exact(_) => Some(path.len()),
        PathPattern::Prefix(_) | PathPattern::Regex(_) => None,
    }
}

/// `start` and `rest` with exactly one slash where they meet; `rest` is empty or begins
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
