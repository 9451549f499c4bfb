//! The budget of a route: what its regular expressions may take to compile and to keep.
//!
//! A user who may create a route makes the control plane compile its patterns, and every data
//! plane keep them. Each pattern has a [charge](crate::Pattern::charge) in bytes, which stands
//! for the memory of its automaton and for the work of building it. The charges of the
//! distinct patterns of a route may add up to [`ROUTE_BUDGET`]. The charge depends on the
//! pattern alone, so that control plane and data plane agree.
//!
//! ```
//! use ghost_core::budget::{Budget, ROUTE_BUDGET};
//! use ghost_core::Pattern;
//!
//! let mut budget = Budget::default();
//! let pattern = budget.compile("/api/v[0-9]+")?;
//! assert!(pattern.charge() < ROUTE_BUDGET / 200);
//! // The same pattern once more is free.
//! assert_eq!(budget.compile("/api/v[0-9]+")?.charge(), pattern.charge());
//! assert_eq!(budget.spent(), pattern.charge());
//! # Ok::<(), ghost_core::PatternError>(())
//! ```

use std::collections::HashSet;

use super::{Pattern, PatternError};

/// What the distinct patterns of a route may be charged together. Building them takes about
/// 30 ms at most.
pub const ROUTE_BUDGET: usize = 1 << 20;

/// What the patterns of one route have been charged.
#[derive(Debug, Default)]
pub struct Budget {
    seen: HashSet<Box<str>>,
    spent: usize,
}

impl Budget {
    /// Compile a pattern of the route.
    ///
    /// # Errors
    /// The pattern is rejected, or the patterns of the route exceed the budget. Then further
    /// patterns are not even compiled.
    pub fn compile(&mut self, source: &str) -> Result<Pattern, PatternError> {
        if self.spent > ROUTE_BUDGET {
            return Err(self.excess());
        }
        let (compiled, charge) = Pattern::compile(source);
        if self.seen.insert(source.into()) {
            self.spent = self.spent.saturating_add(charge);
        }
        if self.spent > ROUTE_BUDGET {
            return Err(self.excess());
        }
        compiled
    }

    /// The sum of all charges.
    #[must_use]
    pub fn spent(&self) -> usize {
        self.spent
    }

    fn excess(&self) -> PatternError {
        PatternError::over_budget(self.seen.len(), self.spent, ROUTE_BUDGET)
    }
}
