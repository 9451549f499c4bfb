//! The budget of a request: how many steps it may take to match it.
//!
//! Tenants write patterns and clients send values; together they decide how long a lookup
//! takes. A request therefore counts the [`Steps`] of all patterns that are tried for it, and is
//! an error beyond [`REQUEST_STEPS`]. The count depends only on the request, the routes and the
//! cache policy: the same request always gets the same answer.
//!
//! The lookup of the rule comes first. The questions to the cache policy of that rule spend what
//! is left: whether the request passes, and what its key is. The fetch asks the second one once
//! more, on a thread of its own. The request pays for that in advance, also if no fetch follows,
//! so that both threads together stay within the budget. The fetch itself has [`FETCH_STEPS`],
//! which is as much as a request can have paid.
//!
//! A pattern takes [256 steps](TRIED) when it is tried. If it is compiled to a table, it takes
//! one more for each byte that it reads and for each [8 KiB](CACHED) of the table. Any other takes
//! [four](SIMULATED) for each byte and state.
//!
//! What is compared without a pattern takes steps too, for a tenant may write many matches: each
//! one that is considered takes [16](CONSIDERED), each header that it looks for [64](HEADER), and
//! each query parameter [128](PARAMETER). 128 matches of 16 headers each take a tenth of the budget.
//! A cache policy takes 64 for each header of its bypass, and one for each name or prefix that a
//! cookie or a query parameter is compared with.
//!
//! ```
//! use std::sync::Arc;
//!
//! use ghost_core::{wire, OverBudget, OwnedRequest, Route, Router};
//!
//! let rule = |n| format!(r#"{{"matches": [{{"headers": [
//!     {{"name": "cookie", "type": "regex", "value": ".*id={n}"}}]}}]}}"#);
//! let rules: Vec<_> = (0..100).map(rule).collect();
//! let route: wire::Route = wire::decode(format!(
//!     r#"{{"namespace": "shop", "name": "tea", "attachments": [{{"listener": "web"}}],
//!         "rules": [{}]}}"#, rules.join(",")).as_bytes())?;
//! let mut router = Router::new();
//! router.set_listeners(&[wire::Listener { name: "web".into(), ..Default::default() }]);
//! router.insert_route(&Arc::new(Route::compile(&route)?), |_| ());
//!
//! let request = |size| OwnedRequest::new("GET", "cafe.example.com", "/").map(|request| {
//!     request.with_header("Cookie", "x".repeat(size))
//! });
//! assert!(router.find(&request(4_000)?).unwrap().is_none());
//! assert_eq!(router.find(&request(30_000)?).unwrap_err(), OverBudget::Header);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::cell::Cell;
use std::fmt;

/// How many steps all matches may take for one request. A step takes one to
/// two nanoseconds, so that a lookup takes less than 5 ms.
pub const REQUEST_STEPS: u64 = 1_500_000;

/// How many steps a fetch may take for the query that the origin gets.
pub const FETCH_STEPS: u64 = REQUEST_STEPS / 2;

/// A table takes a step per byte for each so many bytes of its size. The larger it is, the more of
/// its steps wait for memory: one in a table of 128 KiB takes as long as 16 in a small one.
pub const CACHED: usize = 8 << 10;

/// The steps for each byte and state of a pattern that is simulated, for want of a table.
pub const SIMULATED: u64 = 4;

/// A pattern that is tried takes so many steps, however short the value is: finding the value and
/// the pattern in memory takes longer than reading some bytes.
pub const TRIED: u64 = 256;

/// A match that is considered takes so many steps: finding it in memory, and comparing its path and
/// its precedence.
pub const CONSIDERED: u64 = 16;

/// A header that is looked for takes so many steps: a request may have a hundred others.
pub const HEADER: u64 = 64;

/// A query parameter that is looked for takes so many steps: it may be the last one of many, and
/// each has to be decoded.
pub const PARAMETER: u64 = 128;

/// Matches, or a cache policy, took too many steps for this part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverBudget {
    /// The path or a query parameter.
    Target,
    /// A header.
    Header,
}

impl OverBudget {
    /// The status to answer the request with.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::Target => 414,
            Self::Header => 431,
        }
    }
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = match self {
            Self::Target => "its path or query",
            Self::Header => "one of its headers",
        };
        write!(
            f,
            "routes and their cache policy take more than {REQUEST_STEPS} steps for {part}; \
             shorten it, or use fewer matches, regular expressions or globs"
        )
    }
}

impl std::error::Error for OverBudget {}

/// What a request may still spend. See the [module](self).
#[derive(Debug)]
pub struct Steps {
    left: Cell<u64>,
    exceeded: Cell<bool>,
}

impl Default for Steps {
    fn default() -> Self {
        Self::of_request()
    }
}

impl Steps {
    /// So many.
    #[must_use]
    pub fn new(left: u64) -> Self {
        Self { left: Cell::new(left), exceeded: Cell::new(false) }
    }

    /// The budget of a request.
    #[must_use]
    pub fn of_request() -> Self {
        Self::new(REQUEST_STEPS)
    }

    /// The budget of a fetch.
    #[must_use]
    pub fn of_fetch() -> Self {
        Self::new(FETCH_STEPS)
    }

    /// For tools that want the whole answer.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::new(u64::MAX)
    }

    /// How many are left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left.get()
    }

    /// Whether a match needed more than there was.
    pub(crate) fn are_exceeded(&self) -> bool {
        self.exceeded.get()
    }

    /// What was asked about a part of the request, or that this took more than there was.
    pub(crate) fn decided<T>(&self, answer: T, part: OverBudget) -> Result<T, OverBudget> {
        if self.are_exceeded() {
            Err(part)
        } else {
            Ok(answer)
        }
    }

    /// Spend once more what has been spent since so many were `left`.
    pub(crate) fn spend_again(&self, left: u64) -> bool {
        self.take(left.saturating_sub(self.left()))
    }

    /// Spend what it takes to compare a name with so many others. Returns whether there was
    /// enough left.
    pub(crate) fn compare(&self, names: usize) -> bool {
        self.take(u64::try_from(names).unwrap_or(u64::MAX))
    }

    /// Spend what it takes to consider a match. Returns whether there was enough left.
    pub(crate) fn consider_one(&self) -> bool {
        self.take(CONSIDERED)
    }

    /// Spend what it takes to look for a header. Returns whether there was enough left.
    pub(crate) fn seek_header(&self) -> bool {
        self.take(HEADER)
    }

    /// Spend what it takes to look for a query parameter. Returns whether there was enough left.
    pub(crate) fn seek_parameter(&self) -> bool {
        self.take(PARAMETER)
    }

    /// Spend what it takes to try a pattern. Returns whether there was enough left.
    pub(crate) fn try_one(&self) -> bool {
        self.take(TRIED)
    }

    /// What was exceeded stays so, also if what follows takes nothing.
    fn take(&self, steps: u64) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(steps));
        if left < steps {
            self.exceeded.set(true);
        }
        left >= steps
    }

    /// How many of `length` bytes the pattern may read, of `each` steps.
    pub(crate) fn begin(&self, length: usize, each: u64) -> usize {
        let affordable = usize::try_from(self.left.get() / each.max(1)).unwrap_or(usize::MAX);
        self.exceeded.set(affordable < length);
        affordable.min(length)
    }

    /// Spend `each` steps for each of so many bytes.
    pub(crate) fn spend(&self, bytes: usize, each: u64) {
        let spent = u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(each);
        self.left.set(self.left.get().saturating_sub(spent));
    }

    /// The pattern rejected the value before it had read more than there was.
    pub(crate) fn suffice(&self) {
        self.exceeded.set(false);
    }
}
