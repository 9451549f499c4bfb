//! The index of cached objects.

mod in_flight;
mod limits;
mod look;
mod matching;
mod meanwhile;
mod model;
mod shapes;
mod shares;
mod threads;

use ghost_core::cache::index::{Entry, Index, Invalidation, Mode, Moment, Scope, Target};

pub(super) const ROOM: usize = 256 << 20;

/// An object of the rule `ns/shop/0`, fetched at 10.
pub(super) fn entry<'a>(host: &'a str, target: &'a str, tags: &'a [&'a [u8]]) -> Entry<'a> {
    Entry {
        rule: "ns/shop/0",
        route: "ns/shop",
        host: host.as_bytes(),
        target: target.as_bytes(),
        tags,
        started: Moment::from_nanos(10),
    }
}

/// A soft invalidation at 20.
pub(super) fn soft<'a>(target: Target<'a>, scope: Scope<'a>) -> Invalidation<'a> {
    Invalidation { target, scope, mode: Mode::Soft, at: Moment::from_nanos(20) }
}

/// The handles that an invalidation visits, in order.
pub(super) fn visited(index: &Index, target: Target<'_>, scope: Scope<'_>) -> Vec<usize> {
    let mut found = Vec::new();
    let mut visit = |handle| {
        found.push(handle);
        true
    };
    let count = index.invalidate(&soft(target, scope), &mut visit);
    assert_eq!(count, found.len() as u64);
    found.sort_unstable();
    found
}
