//! Candidates: the matches that a node of the index holds, in the order of precedence.

use std::sync::Arc;

use super::precedence::Precedence;
use crate::matches::Match;
use crate::request::{Lookup, Request};
use crate::route::Rule;
use crate::steps::OverBudget;

/// The most candidates in a chunk. A change copies one chunk and the list of chunks.
const CHUNK: usize = 64;

/// One match of one rule.
#[derive(Clone, Debug)]
pub(super) struct Candidate<T> {
    pub(super) rule: Arc<Rule>,
    pub(super) match_index: usize,
    pub(super) payload: T,
}

impl<T> Candidate<T> {
    pub(super) fn matched(&self) -> &Match {
        &self.rule.matches[self.match_index]
    }

    pub(super) fn precedence(&self) -> Precedence<'_> {
        Precedence::new(&self.rule, self.match_index)
    }

    pub(super) fn matches<R: Request>(&self, request: &Lookup<'_, R>) -> Result<bool, OverBudget> {
        let (matched, steps) = (self.matched(), request.steps());
        if !steps.consider_one() {
            return Err(OverBudget::Target);
        }
        if !matched.path.matches(request.path(), steps) {
            return if steps.are_exceeded() { Err(OverBudget::Target) } else { Ok(false) };
        }
        matched.matches_except_path(request)
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

    /// The first chunk whose last candidate does not rank before `precedence`.
    fn chunk_of(&self, precedence: &Precedence<'_>) -> usize {
        self.chunks.partition_point(|chunk| {
            chunk.last().is_some_and(|last| last.precedence() < *precedence)
        })
    }
}

impl<T: Clone> Candidates<T> {
    /// Insert `new` by its precedence; it replaces a candidate of equal precedence.
    pub(super) fn insert(&mut self, new: Candidate<T>) {
        let precedence = new.precedence();
        let at = self.chunk_of(&precedence).min(self.chunks.len().saturating_sub(1));
        let Some(chunk) = self.chunks.get_mut(at) else {
            self.chunks.push(Arc::new(vec![new]));
            return;
        };
        let place = chunk.binary_search_by(|old| old.precedence().cmp(&precedence));
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

    /// Remove the candidate of this precedence.
    pub(super) fn remove(&mut self, precedence: &Precedence<'_>) {
        let at = self.chunk_of(precedence);
        let Some(chunk) = self.chunks.get_mut(at) else { return };
        let Ok(place) = chunk.binary_search_by(|old| old.precedence().cmp(precedence)) else {
            return;
        };
        if chunk.len() == 1 {
            self.chunks.remove(at);
        } else {
            Arc::make_mut(chunk).remove(place);
        }
    }
}
