//! Permits: how many may do something at a time, in all, for each group of owners and for each owner.

use std::borrow::Borrow;

use crate::primitives::{AtomicUsize, Ordering};

/// How many permits are held.
#[derive(Debug, Default)]
pub struct Holders(AtomicUsize);

impl Holders {
    /// None.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn none() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// How many there are now, for people and metrics.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// One of the holders, until it is dropped.
#[derive(Debug)]
struct Holder<H: Borrow<Holders>>(H);

impl<H: Borrow<Holders>> Holder<H> {
    /// Join them; returns how many there were before, too.
    fn join(holders: H) -> (usize, Self) {
        let before = holders.borrow().0.fetch_add(1, Ordering::Relaxed);
        (before, Self(holders))
    }
}

impl<H: Borrow<Holders>> Drop for Holder<H> {
    fn drop(&mut self) {
        self.0.borrow().0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A permit, until it is dropped.
#[derive(Debug)]
pub struct Permit<A: Borrow<Holders>, G: Borrow<Holders>, O: Borrow<Holders>> {
    _all: Holder<A>,
    _group: Holder<G>,
    _own: Holder<O>,
}

impl<A: Borrow<Holders>, G: Borrow<Holders>, O: Borrow<Holders>> Permit<A, G, O> {
    /// A permit, unless `most` are held by all, or the group of the owner has as many as are left
    /// to all, or the owner has as many as are left to its group: each always leaves some to the
    /// others, and a group with many owners leaves as much as one with a single owner.
    ///
    /// A thread that comes too late counts for a moment, so another one may be rejected that
    /// would just fit.
    pub fn within(most: usize, all: A, group: G, own: O) -> Option<Self> {
        // Dropped at once where it is one too many.
        let (all_before, all) = Holder::join(all);
        let (group_before, group) = Holder::join(group);
        let (own_before, own) = Holder::join(own);
        let left = most.saturating_sub(all_before).saturating_sub(group_before);
        (own_before < left).then_some(Self { _all: all, _group: group, _own: own })
    }
}
