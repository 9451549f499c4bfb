//! The budget of a request: how many steps regular expressions may take to match it.
//!
//! Tenants write patterns and clients send values; together they decide how long a lookup
//! takes. A lookup therefore counts the steps of all patterns that it tries, and gives up
//! beyond [`REQUEST_STEPS`]. The count depends only on the request and the routes: the same
//! request always gets the same answer.
//!
//! A pattern that is compiled to a table takes one step for each byte that it reads. Any
//! other takes [four](SIMULATED) for each byte and state. Requests that no pattern reads
//! spend nothing.
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

/// How many steps the patterns of all matches may take for one request. A step takes one to
/// two nanoseconds, so that a lookup takes less than 5 ms.
pub const REQUEST_STEPS: u64 = 1_500_000;

/// The steps for each byte and state of a pattern that is simulated, for want of a table.
pub const SIMULATED: u64 = 4;

/// A pattern that is tried takes so many steps, however short the value is.
const TRIED: u64 = 16;

/// Regular expressions took too many steps for this part of a request.
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
            "the regular expressions of routes take more than {REQUEST_STEPS} steps for {part}; \
             shorten it, or use fewer regular expressions"
        )
    }
}

impl std::error::Error for OverBudget {}

/// What a lookup may still spend.
pub(crate) struct Steps {
    left: Cell<u64>,
    exceeded: Cell<bool>,
}

impl Steps {
    /// The budget of a request.
    pub(crate) fn of_request() -> Self {
        Self { left: Cell::new(REQUEST_STEPS), exceeded: Cell::new(false) }
    }

    /// For tools that want the whole answer.
    pub(crate) fn unlimited() -> Self {
        Self { left: Cell::new(u64::MAX), exceeded: Cell::new(false) }
    }

    /// Whether a pattern needed more than there was.
    pub(crate) fn are_exceeded(&self) -> bool {
        self.exceeded.get()
    }

    /// Spend what it takes to try a pattern on `length` bytes of `each` steps. Returns how many
    /// bytes the pattern may read.
    pub(crate) fn begin(&self, length: usize, each: u64) -> usize {
        let left = self.left.get().saturating_sub(TRIED);
        self.left.set(left);
        let affordable = usize::try_from(left / each.max(1)).unwrap_or(usize::MAX);
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
