//! Query parameters in the key.
//!
//! | Query | In the key |
//! |---|---|
//! | `a=1&b=2`, `b=2&a=1` | the same: the order of names is irrelevant |
//! | `a=1&a=2`, `a=2&a=1` | different: the order of values of one name is not |
//! | `a[b]=1&a=2`, `a=2&a[b]=1` | different: origins may take both for one name |
//! | `a`, `a=` | different |
//! | `a=1&&b=2`, `a=1&b=2` | the same: empty pairs are no parameters |
//! | all parameters excluded, no query | the same |
//! | `/x?`, `/x` | different, as RFC 3986 says |
//! | `%61=1`, `a=1` | different, but both meet the glob `a` |

use std::cmp::Ordering;
use std::iter;
use std::ops::Range;

use super::super::policy::{Globs, PolicyError, MAX_NAME};
use super::parts::Parts;
use crate::budget::Budget;
use crate::query::{split_pair, Decoded};
use crate::steps::{OverBudget, Steps};
use crate::target;
use crate::wire;

/// Queries with more parameters are sorted in allocated memory.
const ON_STACK: usize = 64;

/// No query.
const NOTHING: Option<iter::Empty<&[u8]>> = None;

/// Which query parameters count.
#[derive(Clone, Debug, Default)]
pub enum QueryPolicy {
    /// All of them.
    #[default]
    All,
    /// Those that match.
    Include(Globs),
    /// Those that don't match.
    Exclude(Globs),
}

/// What tells apart two policies that ignore parameters, without what they are compiled to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    includes: bool,
    globs: Box<str>,
}

impl QueryPolicy {
    pub(super) fn compile(
        source: &wire::QueryParameters,
        budget: &mut Budget,
    ) -> Result<Self, PolicyError> {
        let field = |name: &str| format!("cacheKey.queryParameters.{name}");
        let mut compile = |globs: &[String], name| Globs::compile(globs, &field(name), budget);
        match (&source.include, &source.exclude) {
            (None, None) => Ok(Self::All),
            (Some(globs), None) => Ok(Self::Include(compile(globs, "include")?)),
            (None, Some(globs)) => Ok(Self::Exclude(compile(globs, "exclude")?)),
            (Some(_), Some(_)) => {
                let message = "excludes the field exclude; remove one of them";
                Err(PolicyError::new(field("include"), message))
            }
        }
    }

    /// Whether a pair such as `a=1` counts. What is too long counts: that can only tell objects
    /// apart. After too many steps nothing more is compared.
    fn counts(&self, pair: &[u8], steps: &Steps) -> bool {
        let (globs, wanted) = match self {
            Self::All => return true,
            Self::Include(globs) => (globs, true),
            Self::Exclude(globs) => (globs, false),
        };
        if steps.are_exceeded() {
            return false;
        }
        let mut buffer = [0; MAX_NAME];
        let mut length = 0;
        for byte in Decoded(split_pair(pair).0) {
            let Some(slot) = buffer.get_mut(length) else { return true };
            *slot = byte;
            length += 1;
        }
        globs.matches_within(&buffer[..length], steps) == wanted
    }

    /// What parameters it ignores; None if all of them count.
    #[must_use]
    pub fn shape(&self) -> Option<Shape> {
        match self {
            Self::All => None,
            Self::Exclude(globs) if globs.is_empty() => None,
            Self::Include(globs) => Some(Shape { includes: true, globs: globs.source().into() }),
            Self::Exclude(globs) => Some(Shape { includes: false, globs: globs.source().into() }),
        }
    }

    /// A policy of this shape.
    #[must_use]
    pub fn of_shape(shape: &Shape) -> Self {
        let globs = Globs::of_source(&shape.globs);
        if shape.includes {
            Self::Include(globs)
        } else {
            Self::Exclude(globs)
        }
    }

    /// The one target that stands for all that have the same key: without the parameters that
    /// don't count, the others in the order of the key.
    ///
    /// ```
    /// use ghost_core::cache::key::QueryPolicy;
    ///
    /// let canonical = QueryPolicy::All.canonical(b"/list?b=2&a=1&&a=0");
    /// assert_eq!(canonical, b"/list?a=1&a=0&b=2");
    /// assert_eq!(QueryPolicy::All.canonical(b"/list?&"), b"/list?");
    /// ```
    #[must_use]
    pub fn canonical(&self, target: &[u8]) -> Vec<u8> {
        let (path, query) = target::split(target);
        let mut canonical = path.to_vec();
        let Some(query) = query else { return canonical };
        let steps = Steps::unlimited();
        let counts = |range: &Range<usize>| self.counts(&query[range.clone()], &steps);
        let mut ranges: Vec<_> = pairs(query).filter(counts).collect();
        sort(query, &mut ranges);
        // A query whose parameters are all ignored is none; an empty one is one.
        if !ranges.is_empty() || pairs(query).next().is_none() {
            canonical.push(b'?');
        }
        for (number, range) in ranges.into_iter().enumerate() {
            if number > 0 {
                canonical.push(b'&');
            }
            canonical.extend_from_slice(&query[range]);
        }
        canonical
    }

    /// Write the query that the origin gets: in the client's order, without the parameters
    /// that don't count. An origin can't let them change what others receive.
    ///
    /// # Errors
    /// It takes too many `steps`. Those [of a fetch](Steps::of_fetch) suffice for a query that a
    /// key was written for.
    ///
    /// ```
    /// use ghost_core::cache::Policy;
    /// use ghost_core::wire::{self, CachePolicy};
    /// use ghost_core::Steps;
    ///
    /// let policy: CachePolicy = wire::decode(br#"{"defaultTTL": 1000,
    ///     "cacheKey": {"queryParameters": {"exclude": ["utm_*"]}}}"#)?;
    /// let policy = Policy::compile(&policy)?;
    /// let mut query = Vec::new();
    /// let steps = Steps::of_fetch();
    /// policy.key.query.write_forwarded(b"z=1&utm_source=x&a=2", &steps, &mut query)?;
    /// assert_eq!(query, b"z=1&a=2");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_forwarded(
        &self,
        query: &[u8],
        steps: &Steps,
        to: &mut Vec<u8>,
    ) -> Result<(), OverBudget> {
        let start = to.len();
        for range in pairs(query).filter(|range| self.counts(&query[range.clone()], steps)) {
            if to.len() > start {
                to.push(b'&');
            }
            to.extend_from_slice(&query[range]);
        }
        steps.decided((), OverBudget::Target)
    }

    /// Give the parameters that count.
    pub(super) fn give(
        &self,
        query: Option<&[u8]>,
        steps: &Steps,
        to: &mut impl Parts,
    ) -> Result<(), OverBudget> {
        let Some(query) = query else {
            to.query(NOTHING);
            return Ok(());
        };
        let left = steps.left();
        let mut counting = pairs(query).filter(|range| self.counts(&query[range.clone()], steps));
        let mut on_stack: [Range<usize>; ON_STACK] = [const { 0..0 }; ON_STACK];
        let mut count = 0;
        for (slot, range) in on_stack.iter_mut().zip(counting.by_ref().take(ON_STACK)) {
            *slot = range;
            count += 1;
        }
        match (count, counting.next()) {
            (0, _) if pairs(query).next().is_some() => to.query(NOTHING),
            (_, None) => give_sorted(query, &mut on_stack[..count], to),
            (_, Some(next)) => {
                let mut all = on_stack.to_vec();
                all.push(next);
                all.extend(counting);
                give_sorted(query, &mut all, to);
            }
        }
        // For the fetch, which asks the same once more.
        steps.spend_again(left);
        steps.decided((), OverBudget::Target)
    }
}

/// Where the parameters of a query are.
fn pairs(query: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut start = 0;
    let ranges = query.split(|&byte| byte == b'&').map(move |pair| {
        let range = start..start + pair.len();
        start = range.end + 1;
        range
    });
    ranges.filter(|range| !range.is_empty())
}

/// Sort by variable, then by position, so that the values of one variable keep their order.
fn sort(query: &[u8], ranges: &mut [Range<usize>]) {
    let variable = |range: &Range<usize>| variable(split_pair(&query[range.clone()]).0);
    let by_name = |one: &Range<usize>, other: &Range<usize>| -> Ordering {
        variable(one).cmp(variable(other)).then(one.start.cmp(&other.start))
    };
    ranges.sort_unstable_by(by_name);
}

fn give_sorted(query: &[u8], ranges: &mut [Range<usize>], to: &mut impl Parts) {
    sort(query, ranges);
    to.query(Some(ranges.iter().map(|range| &query[range.clone()])));
}

/// What an origin may take two names for: `%61` and `a` are the same, PHP makes `a_b` of `a.b` and
/// of `a b`, `a[b]` is a part of `a`, and some frameworks ignore case. The order of parameters
/// that may be the same variable is part of the key, because origins get them in that order.
fn variable(name: &[u8]) -> impl Iterator<Item = u8> + '_ {
    Decoded(name).take_while(|&byte| byte != b'[').map(|byte| match byte {
        b'.' | b' ' => b'_',
        _ => byte.to_ascii_lowercase(),
    })
}
