//! Which policy a request is under.

use std::collections::HashMap;
use std::sync::Arc;

use ghost_core::cache::{Attached, Policy, StoreRequest};
use ghost_core::wire::Listener;
use ghost_core::{Action, Rule};

use super::culprits::Requester;
use super::invalidation::Subject;
use super::task::CacheTask;
use crate::failure::Failure;
use crate::varnish::Client;

/// The policies of listeners, by their names.
pub type ListenerPolicies = HashMap<Box<str>, Attached>;

/// A request that a policy applies to.
pub struct Cached {
    /// The policy.
    pub policy: Arc<Policy>,
    /// The listener that took the request.
    pub listener: Arc<Listener>,
}

/// A fetch that a policy applies to.
pub struct Prepared {
    /// The policy.
    pub policy: Arc<Policy>,
    /// What storing depends on in the request, before the filters of its rule.
    pub request: StoreRequest,
    /// What the object will be found by.
    pub subject: Arc<Subject>,
    /// The client that caused it.
    pub requester: Requester,
}

impl Cached {
    /// The policy of the rule or, without one, that of the listener. Ghost's own responses are
    /// not cached.
    pub fn find(rule: &Rule, listener: &Arc<Listener>, all: &ListenerPolicies) -> Option<Self> {
        let policy = effective(rule, || all.get(listener.name.as_str()), all)?;
        Some(Self { policy, listener: Arc::clone(listener) })
    }
}

/// The policy of the rule or, without one, that of the listener.
pub fn effective<'p>(
    rule: &Rule,
    of_listener: impl FnOnce() -> Option<&'p Attached>,
    all: &ListenerPolicies,
) -> Option<Arc<Policy>> {
    let attached = match &rule.cache {
        Some(attached) => attached.policy(),
        None if all.is_empty() => None,
        None => of_listener().and_then(Attached::policy),
    };
    attached.filter(|_| matches!(rule.action, Action::Backends(_))).cloned()
}

/// A request under a policy begins, or begins again after a restart.
pub fn begin(client: &Client<'_>) -> Result<(), Failure> {
    let memory = client.remember::<CacheTask>().ok_or(Failure::OutOfWorkspace)?;
    let mut task = memory.get_mut();
    *task = CacheTask { revived: task.revived, ..CacheTask::default() };
    Ok(())
}
