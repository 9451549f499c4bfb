//! How much of the index the objects of a namespace may take.
//!
//! In:  what a namespace holds, and what is free.
//! Out: whether it may hold that.
//!
//! A share is a percentage of what others leave, as that of varnishd's workers is
//! ([`crate::shares`]). One namespace that wants everything gets 75 % of the index, two get 43 %
//! each, and the rest stays free. An eighth is kept for namespaces that hold less than a
//! hundredth. Each shard counts for itself: handles fall evenly into them.
//!
//! An object counts with all that the index may need for it: its URI and its tags as if no other
//! object had them. So what a namespace holds depends on its own objects alone. Where objects have
//! tags in common, it holds less memory than it is charged for; its share is as much smaller.

/// What one namespace may hold of what the others leave, in percent.
const PERCENT: usize = 75;
/// One in so many bytes is kept for namespaces that hold few.
const KEPT: usize = 8;
/// One in so many bytes is few.
const FEW: usize = 100;

/// Whether a namespace may hold `own` bytes of `limit`, of which `free` are left then.
pub(super) fn allows(own: usize, free: usize, limit: usize) -> bool {
    let is_kept = free < limit / KEPT && own > limit / FEW;
    !is_kept && own <= percent(free.saturating_add(own))
}

fn percent(of: usize) -> usize {
    of / 100 * PERCENT + of % 100 * PERCENT / 100
}
