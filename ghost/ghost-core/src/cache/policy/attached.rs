//! The policy that a rule or a listener bears.

use std::sync::Arc;

use super::Policy;
use crate::wire;

/// A policy as a rule or a listener bears it.
///
/// Its patterns have a budget of their own: a policy that exceeds it caches nothing, and leaves
/// the route alone.
///
/// ```
/// use ghost_core::cache::policy::Attached;
/// use ghost_core::wire::{self, CachePolicy};
///
/// let policy: CachePolicy = wire::decode(br#"{"defaultTTL": 1000}"#)?;
/// assert!(Attached::new(&policy).policy().is_some());
/// let invalid: CachePolicy = wire::decode(br#"{"off": true, "defaultTTL": 1000}"#)?;
/// assert!(Attached::new(&invalid).policy().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub enum Attached {
    /// It decides.
    Valid(Arc<Policy>),
    /// Nothing is cached, and no less specific policy counts.
    Invalid,
}

impl Attached {
    /// Compile a policy. One that is off, or can't be compiled, is invalid.
    #[must_use]
    pub fn new(source: &wire::CachePolicy) -> Self {
        match Policy::compile(source) {
            Ok(policy) if !source.off => Self::Valid(Arc::new(policy)),
            _ => Self::Invalid,
        }
    }

    /// The policy, if it is valid.
    #[must_use]
    pub fn policy(&self) -> Option<&Arc<Policy>> {
        match self {
            Self::Valid(policy) => Some(policy),
            Self::Invalid => None,
        }
    }
}
