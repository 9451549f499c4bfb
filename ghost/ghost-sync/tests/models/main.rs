//! Models of what the structures promise: loom runs every interleaving of their threads.
#![cfg(loom)]

mod alarms;
mod gate;
mod handover;
mod permits;
mod published;
mod rates;
mod served;
mod turns;

/// Every interleaving with so many preemptions: all of them take too long. The environment's
/// `LOOM_MAX_PREEMPTIONS` allows more.
fn with_preemptions(most: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(most));
    builder.check(check);
}
