//! The paths of one hostname, as a tree of segments.
//!
//! An exact path or a prefix is stored at the node of its last segment. A regular expression
//! is stored at the node of the whole segments that every matching path begins with. A
//! lookup visits only nodes that exist, so the longest URL costs no more than the deepest
//! route.

use std::array::from_fn;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::candidates::{Candidate, Candidates};
use super::map::Map;
use super::precedence::{PathRank, Precedence};
use crate::matches::PathPattern;
use crate::route::Rule;

/// Longer paths are stored at this depth, where a lookup compares them. The limit bounds the
/// stack that dropping a tree needs: varnishd's workers have little.
const MAX_DEPTH: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct PathTree<T> {
    children: Map<Arc<[u8]>, PathTree<T>>,
    exact: Candidates<T>,
    prefix: Candidates<T>,
    regex: Candidates<T>,
    /// Regular expressions of rules whose matches are approximate.
    approximate: Candidates<T>,
}

impl<T> Default for PathTree<T> {
    fn default() -> Self {
        Self {
            children: Map::default(),
            exact: Candidates::default(),
            prefix: Candidates::default(),
            regex: Candidates::default(),
            approximate: Candidates::default(),
        }
    }
}

impl<T> PathTree<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty()
            && self.exact.is_empty()
            && self.prefix.is_empty()
            && self.regex.is_empty()
            && self.approximate.is_empty()
    }

    fn list_for(&mut self, rule: &Rule, match_index: usize) -> &mut Candidates<T> {
        match PathRank::new(rule, match_index) {
            PathRank::Exact => &mut self.exact,
            PathRank::Regex => &mut self.regex,
            PathRank::Prefix => &mut self.prefix,
            PathRank::Approximate => &mut self.approximate,
        }
    }

    /// Visit every candidate that may serve `path`, in the order of precedence, until
    /// `visit` breaks.
    pub(super) fn walk<'a, B>(
        &'a self,
        path: &[u8],
        visit: &mut impl FnMut(&'a Candidate<T>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let mut trail = [self; MAX_DEPTH + 1];
        let mut depth = 0;
        let mut remaining = segments(path);
        while depth < MAX_DEPTH {
            let Some(segment) = remaining.next() else { break };
            let Some(child) = trail[depth].children.get(segment) else {
                return walk_up(&trail[..=depth], visit);
            };
            depth += 1;
            trail[depth] = child;
        }
        trail[depth].exact.iter().try_for_each(&mut *visit)?;
        walk_up(&trail[..=depth], visit)
    }
}

impl<T: Clone> PathTree<T> {
    pub(super) fn insert(&mut self, candidate: Candidate<T>) {
        let (rule, match_index) = (Arc::clone(&candidate.rule), candidate.match_index);
        self.insert_below(&mut home(&rule.matches[match_index].path), |node| {
            node.list_for(&rule, match_index).insert(candidate);
        });
    }

    pub(super) fn remove(&mut self, rule: &Rule, match_index: usize) {
        self.remove_below(&mut home(&rule.matches[match_index].path), |node| {
            node.list_for(rule, match_index).remove(&Precedence::new(rule, match_index));
        });
    }

    /// Apply `change` to the node at the end of `way`; missing nodes are created.
    fn insert_below(
        &mut self,
        way: &mut dyn Iterator<Item = &[u8]>,
        change: impl FnOnce(&mut Self),
    ) {
        match way.next() {
            Some(segment) => self.children.update(segment, |child| child.insert_below(way, change)),
            None => change(self),
        }
    }

    /// Apply `change` to the node at the end of `way`, and drop the nodes that it empties.
    fn remove_below(
        &mut self,
        way: &mut dyn Iterator<Item = &[u8]>,
        change: impl FnOnce(&mut Self),
    ) {
        let Some(segment) = way.next() else {
            change(self);
            return;
        };
        self.children.shrink(segment, |child| {
            child.remove_below(way, change);
            child.is_empty()
        });
    }
}

/// Visit the regular expressions of all nodes, then prefixes from the deepest node up, then
/// what is left of invalid regular expressions.
fn walk_up<'a, T, B>(
    trail: &[&'a PathTree<T>],
    visit: &mut impl FnMut(&'a Candidate<T>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    walk_merged(trail, |node| &node.regex, visit)?;
    for node in trail.iter().rev() {
        node.prefix.iter().try_for_each(&mut *visit)?;
    }
    walk_merged(trail, |node| &node.approximate, visit)
}

/// Visit one list of each node, all together in the order of precedence: how deep a regular
/// expression is stored says nothing about its rank.
fn walk_merged<'a, T, B>(
    trail: &[&'a PathTree<T>],
    list: impl Fn(&'a PathTree<T>) -> &'a Candidates<T>,
    visit: &mut impl FnMut(&'a Candidate<T>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let mut filled = trail.iter().map(|node| list(node)).filter(|list| !list.is_empty());
    match (filled.next(), filled.next()) {
        (None, _) => return ControlFlow::Continue(()),
        (Some(only), None) => return only.iter().try_for_each(visit),
        _ => (),
    }
    let mut lists: [_; MAX_DEPTH + 1] =
        from_fn(|depth| trail.get(depth).map(|node| list(node).iter().peekable()));
    loop {
        let first = lists
            .iter_mut()
            .flatten()
            .filter_map(|list| Some((list.peek()?.precedence(), list)))
            .min_by(|(one, _), (other, _)| one.cmp(other));
        let Some(candidate) = first.and_then(|(_, list)| list.next()) else {
            return ControlFlow::Continue(());
        };
        visit(candidate)?;
    }
}

/// The segments that lead to the node where `path` is stored.
fn home(path: &PathPattern) -> impl Iterator<Item = &[u8]> {
    let leading = match path {
        PathPattern::Exact(path) | PathPattern::Prefix(path) => path.as_bytes(),
        PathPattern::Regex(pattern) => whole_segments(pattern.literal_prefix()),
    };
    segments(leading).take(MAX_DEPTH)
}

/// What precedes the last slash: the segment after it may continue.
fn whole_segments(literal: &[u8]) -> &[u8] {
    let end = literal.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    &literal[..end]
}

/// The segments of a path: "/" has one; "" and what doesn't begin with "/" have none.
fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.strip_prefix(b"/").into_iter().flat_map(|rest| rest.split(|&byte| byte == b'/'))
}
