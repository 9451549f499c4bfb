//! Candidates: matches that wait at a place of the index, the first to serve first.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::matches::{Match, PathPattern};
use crate::request::Request;
use crate::route::Rule;

/// Candidates are kept in chunks of at most this many: a change copies one chunk and the
/// list of chunks.
const CHUNK: usize = 64;

/// One match of one rule.
#[derive(Clone, Debug)]
pub(super) struct Candidate<T> {
    pub(super) rule: Arc<Rule>,
    pub(super) match_index: usize,
    pub(super) payload: T,
}

/// What decides between two candidates of one kind of path; the smaller serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Precedence<'a> {
    pub(super) path_length: Reverse<usize>,
    pub(super) lacks_method: bool,
    pub(super) headers: Reverse<usize>,
    pub(super) query: Reverse<usize>,
    pub(super) created: i64,
    pub(super) route: &'a str,
    pub(super) rule: usize,
    pub(super) match_index: usize,
}

impl<T> Candidate<T> {
    pub(super) fn matched(&self) -> &Match {
        &self.rule.matches[self.match_index]
    }

    pub(super) fn precedence(&self) -> Precedence<'_> {
        precedence(&self.rule, self.match_index)
    }

    pub(super) fn holds(&self, request: &impl Request) -> bool {
        let matched = self.matched();
        path_holds(&matched.path, request.path()) && matched.matches_except_path(request)
    }
}

pub(super) fn precedence(rule: &Rule, match_index: usize) -> Precedence<'_> {
    let matched = &rule.matches[match_index];
    let path_length = match &matched.path {
        PathPattern::Exact(path) | PathPattern::Prefix(path) => path.len(),
        PathPattern::Regex(_) => 0,
    };
    Precedence {
        path_length: Reverse(path_length),
        lacks_method: matched.method.is_none(),
        headers: Reverse(matched.headers.len()),
        query: Reverse(matched.query.len()),
        created: rule.created,
        route: &rule.route,
        rule: rule.index,
        match_index,
    }
}

pub(super) fn path_holds(pattern: &PathPattern, path: &[u8]) -> bool {
    match pattern {
        PathPattern::Exact(expected) => expected.as_bytes() == path,
        PathPattern::Prefix(prefix) => match path.strip_prefix(prefix.as_bytes()) {
            Some(rest) => prefix.is_empty() || matches!(rest, [] | [b'/', ..]),
            None => false,
        },
        PathPattern::Regex(pattern) => pattern.matches(path),
    }
}

/// Candidates in the order of their precedence.
#[derive(Clone, Debug)]
pub(super) struct Candidates<T> {
    chunks: Vec<Arc<Vec<Candidate<T>>>>,
}

impl<T> Default for Candidates<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T> Candidates<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Candidate<T>> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// The first chunk whose last candidate is not before `wanted`.
    fn chunk_of(&self, wanted: &Precedence<'_>) -> usize {
        self.chunks
            .partition_point(|chunk| chunk.last().is_some_and(|last| last.precedence() < *wanted))
    }
}

impl<T: Clone> Candidates<T> {
    /// Put `new` in its place, or in that of an equal one.
    pub(super) fn insert(&mut self, new: Candidate<T>) {
        let wanted = new.precedence();
        let at = self.chunk_of(&wanted).min(self.chunks.len().saturating_sub(1));
        let Some(chunk) = self.chunks.get_mut(at) else {
            self.chunks.push(Arc::new(vec![new]));
            return;
        };
        let place = chunk.binary_search_by(|old| old.precedence().cmp(&wanted));
        let chunk = Arc::make_mut(chunk);
        match place {
            Ok(equal) => chunk[equal] = new,
            Err(place) => chunk.insert(place, new),
        }
        if chunk.len() > CHUNK {
            let second = chunk.split_off(CHUNK / 2);
            self.chunks.insert(at + 1, Arc::new(second));
        }
    }

    /// Take the candidate of this precedence out.
    pub(super) fn remove(&mut self, gone: &Precedence<'_>) {
        let at = self.chunk_of(gone);
        let Some(chunk) = self.chunks.get_mut(at) else { return };
        let Ok(place) = chunk.binary_search_by(|old| old.precedence().cmp(gone)) else { return };
        if chunk.len() == 1 {
            self.chunks.remove(at);
        } else {
            Arc::make_mut(chunk).remove(place);
        }
    }
}
