//! Conflict rules: which of two routes serves a request that both match.
//!
//! Routes never conflict in the sense that inserting one fails. Any number of them may
//! match a request, and the order below is total, so exactly one serves it. Neither the
//! order of insertion nor the order of shards plays a part.
//!
//! # How a request finds its rule
//!
//! 1. The socket of the request selects the listeners of that socket; listeners of the
//!    socket `*` serve the sockets that no listener names.
//! 2. Of these, the listener with the most specific hostname accepts the request: exact,
//!    then the longest wildcard, then `*`. The choice is final. Routes that are attached to
//!    other listeners do not compete, even if no route of this listener matches.
//! 3. Of the matches that hold, the rules below select one. Each rule decides only what the
//!    rules before it leave equal. [`Criterion`] names them in the same order, and
//!    [`Router::explain`](crate::Router::explain) reports which one decided.
//!
//! In the examples, `winner` builds a router from routes of the namespace `shop`, each given
//! as (name, hostname, creation time, rules in JSON). It returns the identity
//! `namespace/name/rule` of the rule that serves `GET /tea?cup=1` for `www.cafe.example`
//! with the header `x: 1`. The rule `{}` matches every request.
//!
//! ## 1. Hostname: exact, then the longest wildcard, then none
//!
//! ```
#![doc = include_str!("precedence_example.in")]
//! let [exact, long, short, any] = ["www.cafe.example", "*.cafe.example", "*.example", "*"];
//! let route = |name, hostname| (name, hostname, 0, "[{}]");
//!
//! assert_eq!(winner(&[route("a", long), route("b", exact)]), "shop/b/0");
//! assert_eq!(winner(&[route("a", short), route("b", long)]), "shop/b/0");
//! assert_eq!(winner(&[route("a", any), route("b", short)]), "shop/b/0");
//! ```
//!
//! The hostname ranks above the path. Where no rule of the most specific hostname matches,
//! the rules of the next one are tried.
//!
//! ## 2. Path: exact, then the longest regular expression, then the longest prefix
//!
//! ```
#![doc = include_str!("precedence_example.in")]
//! let exact = r#"[{"matches": [{"path": {"type": "exact", "value": "/tea"}}]}]"#;
//! let prefix = r#"[{"matches": [{"path": {"type": "prefix", "value": "/tea"}}]}]"#;
//! let root = r#"[{"matches": [{"path": {"type": "prefix", "value": "/"}}]}]"#;
//! let regex = r#"[{"matches": [{"path": {"type": "regex", "value": "/.*"}}]}]"#;
//! let longer = r#"[{"matches": [{"path": {"type": "regex", "value": "/t.*"}}]}]"#;
//!
//! assert_eq!(winner(&[("a", "*", 0, prefix), ("b", "*", 0, exact)]), "shop/b/0");
//! assert_eq!(winner(&[("a", "*", 0, root), ("b", "*", 0, prefix)]), "shop/b/0");
//! assert_eq!(winner(&[("a", "*", 0, prefix), ("b", "*", 0, regex)]), "shop/b/0");
//! assert_eq!(winner(&[("a", "*", 0, longer), ("b", "*", 0, exact)]), "shop/b/0");
//! assert_eq!(winner(&[("a", "*", 0, regex), ("b", "*", 0, longer)]), "shop/b/0");
//! ```
//!
//! Any regular expression beats any prefix. The length of a regular expression is that of its
//! text in bytes.
//!
//! The matches of an *approximate* rule are what is left of matches that are invalid. A
//! regular expression of such a rule ranks below every other path, so that it takes no
//! request from another rule.
//!
//! ```
#![doc = include_str!("precedence_example.in")]
//! let left = r#"[{"approximate": true, "matches": [{"path": {"type": "regex", "value": "/.*"}}]}]"#;
//!
//! assert_eq!(winner(&[("a", "*", 0, left), ("b", "*", 0, "[{}]")]), "shop/b/0");
//! ```
//!
//! A control plane of an earlier version does not mark such rules. It gives them the status
//! 500, and relies on regular expressions to rank last. So a regular expression of a rule with
//! that status ranks last too. A valid rule that answers 500 has a backend that stands for the
//! status.
//!
//! ```
#![doc = include_str!("precedence_example.in")]
//! let path = r#""matches": [{"path": {"type": "regex", "value": "/.*"}}]"#;
//! let unmarked = format!(r#"[{{"status": 500, {path}}}]"#);
//! let valid = format!(r#"[{{"backends": [{{"status": 500}}], {path}}}]"#);
//!
//! assert_eq!(winner(&[("a", "*", 0, unmarked.as_str()), ("b", "*", 0, "[{}]")]), "shop/b/0");
//! assert_eq!(winner(&[("a", "*", 0, "[{}]"), ("b", "*", 0, valid.as_str())]), "shop/b/0");
//! ```
//!
//! ## 3. Method: a match with a method before one without
//!
//! ```
#![doc = include_str!("precedence_example.in")]
//! let method = r#"[{"matches": [{"method": "GET"}]}]"#;
//! let header = r#"[{"matches": [{"headers": [{"name": "x", "value": "1"}]}]}]"#;
//!
//! assert_eq!(winner(&[("a", "*", 0, header), ("b", "*", 0, method)]), "shop/b/0");
//! ```
//!
//! ## 4. Headers: the match with more of them
//!
//! ```
#![doc = include_str!("precedence_example.in")]
//! let header = r#"[{"matches": [{"headers": [{"name": "x", "value": "1"}]}]}]"#;
//! let query = r#"[{"matches": [{"query": [{"name": "cup", "value": "1"}]}]}]"#;
//!
//! assert_eq!(winner(&[("a", "*", 0, query), ("b", "*", 0, header)]), "shop/b/0");
//! ```
//!
//! ## 5. Query parameters: the match with more of them
//!
//! ```
#![doc = include_str!("precedence_example.in")]
//! let query = r#"[{"matches": [{"query": [{"name": "cup", "value": "1"}]}]}]"#;
//!
//! assert_eq!(winner(&[("a", "*", 0, "[{}]"), ("b", "*", 0, query)]), "shop/b/0");
//! ```
//!
//! ## 6. Creation time: the older route
//!
//! ```
#![doc = include_str!("precedence_example.in")]
//! assert_eq!(winner(&[("a", "*", 1700000001, "[{}]"), ("b", "*", 1700000000, "[{}]")]), "shop/b/0");
//! ```
//!
//! ## 7. Name: the first route in the order of `namespace/name`
//!
//! ```
#![doc = include_str!("precedence_example.in")]
//! assert_eq!(winner(&[("b", "*", 0, "[{}]"), ("a", "*", 0, "[{}]")]), "shop/a/0");
//! ```
//!
//! ## 8. Validity: a rule of the route before its approximate rules
//!
//! ```
#![doc = include_str!("precedence_example.in")]
//! assert_eq!(winner(&[("a", "*", 0, r#"[{"approximate": true}, {}]"#)]), "shop/a/1");
//! ```
//!
//! ## 9. Position: the first rule of the route, then the first match of the rule
//!
//! ```
#![doc = include_str!("precedence_example.in")]
//! assert_eq!(winner(&[("a", "*", 0, "[{}, {}]")]), "shop/a/0");
//! ```
//!
//! # What is not a conflict
//!
//! - Two routes of the same `namespace/name` are one route:
//!   [`insert_route`](crate::Router::insert_route) replaces the former.
//! - Of two listeners with the same socket and hostname the first in the list counts.
//! - A preflight may be served by the rule of the request that it announces; see
//!   [`cors`](crate::cors).

use std::cmp::Reverse;
use std::fmt;

use crate::matches::PathPattern;
use crate::route::Rule;

/// What decides between two matches that hold, in the order in which it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Criterion {
    /// The more specific hostname wins.
    Hostname,
    /// An exact path wins over a regular expression, and both over a prefix.
    PathType,
    /// The longer regular expression wins.
    RegexLength,
    /// The longer prefix wins.
    PathLength,
    /// A match with a method wins over one without.
    Method,
    /// The match with more headers wins.
    Headers,
    /// The match with more query parameters wins.
    Query,
    /// The older route wins.
    Created,
    /// The route that comes first by `namespace/name` wins.
    Name,
    /// A rule whose matches are all valid wins over an approximate one of the same route, and
    /// every path over an approximate regular expression.
    Validity,
    /// The rule, and then the match, that comes first in the route wins.
    Order,
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hostname => "its hostname is more specific",
            Self::PathType => "an exact path comes before a regex, and both before a prefix",
            Self::RegexLength => "its regex is longer",
            Self::PathLength => "its prefix is longer",
            Self::Method => "it asks for a method",
            Self::Headers => "it asks for more headers",
            Self::Query => "it asks for more query parameters",
            Self::Created => "its route is older",
            Self::Name => "its route is first by namespace and name",
            Self::Validity => "the other is what is left of an invalid match",
            Self::Order => "it stands earlier in the same route",
        })
    }
}

/// The rank of a path among those of one hostname; the least serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathRank {
    Exact,
    Regex,
    Prefix,
    /// What is left of an invalid regular expression.
    Approximate,
}

impl PathRank {
    pub(super) fn new(rule: &Rule, match_index: usize) -> Self {
        match &rule.matches[match_index].path {
            PathPattern::Exact(_) => Self::Exact,
            PathPattern::Regex(_) if rule.may_be_invalid() => Self::Approximate,
            PathPattern::Regex(_) => Self::Regex,
            PathPattern::Prefix(_) => Self::Prefix,
        }
    }

    /// The criterion by which a path of a higher rank comes before one of this rank.
    fn criterion_above(self) -> Criterion {
        if self == Self::Approximate {
            Criterion::Validity
        } else {
            Criterion::PathType
        }
    }

    fn length_criterion(self) -> Criterion {
        match self {
            Self::Regex | Self::Approximate => Criterion::RegexLength,
            Self::Exact | Self::Prefix => Criterion::PathLength,
        }
    }
}

/// The rank of a match among those of one hostname; the least serves. The order of the fields
/// is the order of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Precedence<'a> {
    path: PathRank,
    path_length: Reverse<usize>,
    lacks_method: bool,
    headers: Reverse<usize>,
    query: Reverse<usize>,
    created: i64,
    route: &'a str,
    approximate: bool,
    rule: usize,
    match_index: usize,
}

impl<'a> Precedence<'a> {
    pub(super) fn new(rule: &'a Rule, match_index: usize) -> Self {
        let matched = &rule.matches[match_index];
        let path_length = match &matched.path {
            PathPattern::Exact(path) | PathPattern::Prefix(path) => path.len(),
            PathPattern::Regex(pattern) => pattern.source().len(),
        };
        Self {
            path: PathRank::new(rule, match_index),
            path_length: Reverse(path_length),
            lacks_method: matched.method.is_none(),
            headers: Reverse(matched.headers.len()),
            query: Reverse(matched.query.len()),
            created: rule.created,
            route: &rule.route,
            approximate: rule.approximate,
            rule: rule.index,
            match_index,
        }
    }

    /// The first criterion by which it comes before a `lower` rank.
    pub(super) fn deciding(&self, lower: &Self) -> Criterion {
        let differences = [
            (self.path != lower.path, lower.path.criterion_above()),
            (self.path_length != lower.path_length, self.path.length_criterion()),
            (self.lacks_method != lower.lacks_method, Criterion::Method),
            (self.headers != lower.headers, Criterion::Headers),
            (self.query != lower.query, Criterion::Query),
            (self.created != lower.created, Criterion::Created),
            (self.route != lower.route, Criterion::Name),
            (self.approximate != lower.approximate, Criterion::Validity),
        ];
        let first = differences.into_iter().find(|(differs, _)| *differs);
        first.map_or(Criterion::Order, |(_, criterion)| criterion)
    }
}
