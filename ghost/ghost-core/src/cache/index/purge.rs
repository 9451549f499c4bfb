//! What an invalidation names.

use std::fmt;

/// A time in nanoseconds. All times of one index come from the same clock, which must not go
/// backwards: one that is set back between a fetch and an invalidation would hide that the
/// fetch began first.
///
/// ```
/// use ghost_core::cache::index::Moment;
///
/// assert!(Moment::from_nanos(1) < Moment::from_nanos(2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// From nanoseconds since any fixed time.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since that time.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }
}

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// It becomes stale, and may be served where stale objects may.
    Soft,
    /// It is removed.
    Hard,
}

/// A condition on path and query.
#[derive(Clone, Copy)]
pub struct Condition<'a>(pub &'a (dyn Fn(&[u8]) -> bool + Sync));

impl fmt::Debug for Condition<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Condition")
    }
}

/// Which objects an invalidation names, by what clients requested.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// All objects of a URI, whatever their keys and variants are.
    Uri {
        /// As [`Host`](crate::Host) normalises it.
        host: &'a [u8],
        /// Path with query. A query that differs is another URI.
        target: &'a [u8],
    },
    /// All objects of a host whose path with query begins with these bytes. `/tea` also names
    /// `/teapot`; `/tea/` does not.
    Prefix {
        /// As [`Host`](crate::Host) normalises it.
        host: &'a [u8],
        /// The first bytes of the path.
        prefix: &'a [u8],
    },
    /// All objects of a host whose path with query meets a condition.
    Matching {
        /// As [`Host`](crate::Host) normalises it.
        host: &'a [u8],
        /// What all of them begin with.
        prefix: &'a [u8],
        /// The condition. It is asked while no lock is held.
        matches: Condition<'a>,
    },
    /// All objects of a host.
    Host(&'a [u8]),
    /// All objects with at least one of these tags.
    Tags(&'a [&'a [u8]]),
    /// All objects of a rule, by its [identity](crate::Rule::identity).
    Rule(&'a str),
    /// All objects of a route, by `namespace/name`.
    Route(&'a str),
    /// All objects.
    Everything,
}

/// Which of these objects the sender may reach.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'a> {
    /// All of them.
    All,
    /// Those that these routes serve, by `namespace/name`.
    Routes(&'a [&'a str]),
    /// Those that routes of this namespace serve.
    Namespace(&'a str),
    /// Those that routes of these namespaces serve, or these routes.
    Owners {
        /// Names of namespaces.
        namespaces: &'a [&'a str],
        /// Routes by `namespace/name`.
        routes: &'a [&'a str],
    },
}

/// An invalidation.
#[derive(Clone, Copy, Debug)]
pub struct Invalidation<'a> {
    /// Which objects.
    pub target: Target<'a>,
    /// Restricted to these.
    pub scope: Scope<'a>,
    /// What the visitor does with them; what [`insert`](super::Index::insert) reports of those
    /// that are stored later.
    pub mode: Mode,
    /// When it was received. It covers all fetches that began until then.
    pub at: Moment,
}

/// What happens to the objects of an invalidation. A closure will do.
pub trait Visitor {
    /// Invalidate an object, which exists for the duration of the call: the index holds the
    /// lock without which [`remove`](super::Index::remove) doesn't return. For the same reason
    /// the call must be short, and must not use the index.
    ///
    /// Out: whether the object counts. One that is being removed already doesn't.
    fn visit(&mut self, handle: usize) -> bool;

    /// A batch ended: no lock is held.
    fn pause(&mut self) {}
}

impl<F: FnMut(usize) -> bool> Visitor for F {
    fn visit(&mut self, handle: usize) -> bool {
        self(handle)
    }
}
