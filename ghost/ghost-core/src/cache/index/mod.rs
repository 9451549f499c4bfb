//! The index of cached objects: which of them an invalidation concerns.
//!
//! In:  objects as they are stored and removed, each with what its client requested; then
//!      invalidations by URI, prefix, condition, host, tag, rule or route.
//! Out: calls of a [`Visitor`] with the handle of each object, and how many there were.
//!
//! The index knows nothing of what a handle stands for. A cache calls [`insert`](Index::insert)
//! for every object that it stores and [`remove`](Index::remove) before it frees one, from any
//! thread.
//!
//! ```
//! use ghost_core::cache::index::{Entry, Index, Invalidation, Mode, Moment, Scope, Target};
//!
//! let index = Index::new(64 << 20);
//! let at = Moment::from_nanos;
//! let tea = Entry {
//!     rule: "shop/tea/0", route: "shop/tea", host: b"tea.example", target: b"/list?page=2",
//!     tags: &[b"green", b"black"], started: at(10),
//! };
//! assert_eq!(index.insert(0x1000, &tea), Ok(None));
//!
//! let purge = |target, scope| {
//!     let what = Invalidation { target, scope, mode: Mode::Soft, at: at(20) };
//!     let mut found = Vec::new();
//!     let count = index.invalidate(&what, &mut |handle| { found.push(handle); true });
//!     assert_eq!(count, found.len() as u64);
//!     found
//! };
//! assert_eq!(purge(Target::Tags(&[b"green", b"black"]), Scope::All), [0x1000]);
//! assert_eq!(purge(Target::Prefix { host: b"tea.example", prefix: b"/li" }, Scope::All), [0x1000]);
//! assert!(purge(Target::Everything, Scope::Routes(&["other/route"])).is_empty());
//! assert_eq!(index.look(&Target::Host(b"tea.example"), &Scope::All, &mut |_| true, |_| true), 1);
//!
//! // Fetched before the invalidations, stored after them: it is stale from the beginning.
//! assert_eq!(index.insert(0x2000, &tea), Ok(Some(Mode::Soft)));
//! assert_eq!(index.insert(0x2000, &Entry { started: at(21), ..tea }), Ok(None));
//! assert!(index.remove(0x1000) && index.remove(0x2000) && !index.remove(0x2000));
//! ```
//!
//! # Promises
//!
//! - **A handle is valid while the visitor has it.** The visitor runs under the lock that
//!   `remove` takes, so an object whose removal ends in `remove` isn't freed meanwhile.
//! - **An object is visited once**, however many of its tags are listed, and counted if the
//!   visitor says so. An object that is there from the beginning to the end of an invalidation
//!   is visited. One that is removed meanwhile may be. One that is inserted meanwhile may be
//!   too; whether or not it is, `insert` has reported it if its fetch began earlier.
//! - **Nothing that was fetched before an invalidation is fresh after it.** `insert` compares
//!   the start of the fetch with the invalidations since then, in a memory of fixed size. It may
//!   report an object that no invalidation covers, never the opposite; an invalidation of
//!   certain routes concerns objects of these routes only. Of 5,000 invalidations of other names
//!   during a fetch, one is taken for its own with a probability below 10⁻⁷; of any number that
//!   other namespaces make, too (`marks.rs` has the figures).
//! - **A lock is held for at most [`BATCH`] objects**, and an invalidation takes the locks in
//!   turn: others wait for a batch, never for an invalidation. An invalidation ends. If other
//!   threads insert URIs ahead of it faster than it visits them, its batches grow until it is
//!   faster. An object with 1,024 tags is inserted and removed under one lock.
//! - **Memory is counted to the byte** ([`Usage::bytes`]) as it is requested from the allocator,
//!   which adds about 16 bytes to each URI. Beyond the limit `insert` refuses, and the cache must
//!   not keep that object: an invalidation would miss it. Each shard has its part of the limit;
//!   handles fall evenly into them. A namespace may have 75 % of what the others leave: one that
//!   stores as much as it can leaves the others room. What a running invalidation needs for
//!   itself, 16 bytes for each tag that it lists and a bit for each object, is the caller's.
//!   So are shapes: at most 28 bytes for each object whose policy ignores parameters.
//! - **Matching is exact.** Targets are stored and compared byte by byte. Hosts, tags, rules and
//!   routes are hashed to 128 bits with a secret key: two names out of 10⁹ are equal by chance
//!   with a probability below 2⁻⁶⁸, and no client can search for such names.
//!
//! # Structure
//!
//! Sixteen shards by handle, each with one lock and everything about its objects, so insertions
//! and removals take one lock and run in parallel. An invalidation looks into all of them.
//! Cells are addressed by 32-bit numbers within slabs. An object is in a list of its URI, of
//! its rule, and of each of its tags; the URIs of a host form a crit-bit tree.
//!
//! The example `cache_index` prints figures. These are CPU times, of two cores that six times as
//! many threads wanted, with 1,000,000 objects, a URI of 60 bytes and one of 10,000 tags each. A
//! random read of memory took 261 to 283 ns then: compare with that. Two runs:
//!
//! | What | Figure |
//! |---|---|
//! | memory for each object | 167 bytes, 187 resident |
//! | insert, remove | 7.0 to 7.2 µs, 5.9 to 6.4 µs: as long as about 25 random reads |
//! | a URI | 16 batches of 1 to 6 µs |
//! | 100 tags with 10,000 objects together | 4.6 to 6.1 ms |
//! | a host with 10,000 objects | 3.7 to 7.6 ms |
//! | 10,000 tags with all objects together | 550 to 640 ms |
//! | everything | 180 to 240 ms in batches of 10 to 12 µs |
//!
//! Alternatives for the order of URIs that weren't chosen:
//!
//! | Alternative | Why not |
//! |---|---|
//! | `BTreeMap` of targets | no faster, and a removed object has to find its URI: with a cell for that and a shared target it takes about 80 bytes instead of 36 |
//! | a trie with a node for each path segment | one directory with 100,000 files is scanned for a prefix within it |
//! | no order, a scan for each prefix | every invalidation of a prefix costs what is cached, not what it hits |
//! | shards by URI or by tag | a removal knows the handle only, and would take a lock for each tag |

mod keys;
mod list;
mod map;
mod marks;
mod purge;
mod recent;
mod shapes;
mod shard;
mod share;
mod slab;
mod tree;
mod walk;

use std::fmt;
use std::mem::size_of;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use purge::{Condition, Invalidation, Mode, Moment, Scope, Target, Visitor};
pub use shapes::{indexed, target_of, HeldShape};
pub use walk::BATCH;

use super::key::QueryPolicy;
use super::tags::MAX_TAGS;
use keys::Keys;
use recent::{Recent, MARKS_AT_ONCE};
use shapes::Shapes;
use shard::{mix, Facts, Shard};
use walk::{Plan, Walk};

/// How many shards: a power of two.
const SHARDS: usize = 16;
/// The longest target.
pub const MAX_TARGET: usize = 64 << 10;

/// An object that is stored.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The [identity](crate::Rule::identity) of its rule.
    pub rule: &'a str,
    /// Its route, as `namespace/name`.
    pub route: &'a str,
    /// The host that the client requested, as [`Host`](crate::Host) normalises it.
    pub host: &'a [u8],
    /// Path and query that the client requested, as [`indexed`] returns it.
    pub target: &'a [u8],
    /// Any bytes. Repetitions don't matter.
    pub tags: &'a [&'a [u8]],
    /// When its fetch began, before the request was sent to the origin.
    pub started: Moment,
}

/// Why an object is not in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The index would exceed its limit, or the object's namespace its share or its number of
    /// shapes.
    Full,
    /// It has more than [`MAX_TAGS`] tags.
    TooManyTags,
    /// Its target is longer than [`MAX_TARGET`].
    TargetTooLong,
}

impl Refused {
    /// A word that never changes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "index-full",
            Self::TooManyTags => "too-many-tags",
            Self::TargetTooLong => "target-too-long",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => {
                let full = "the index of cached objects, or its share for the route's namespace, ";
                write!(to, "{full}has reached its limit")
            }
            Self::TooManyTags => write!(to, "the response has more than {MAX_TAGS} tags"),
            Self::TargetTooLong => {
                write!(to, "path and query have more than {MAX_TARGET} bytes")
            }
        }
    }
}

impl std::error::Error for Refused {}

/// What an index holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Objects.
    pub objects: usize,
    /// Tags of all objects: a tag counts for each object that has it.
    pub tags: usize,
    /// Sets of ignored parameters that objects and fetches have.
    pub shapes: usize,
    /// Bytes on the heap.
    pub bytes: usize,
}

/// The index. See the [module](self).
#[derive(Debug)]
pub struct Index {
    shards: Box<[Mutex<Shard>]>,
    recent: Mutex<Recent>,
    shapes: Arc<Shapes>,
    keys: Keys,
    /// Bytes of each shard.
    limit: usize,
}

impl Index {
    /// An index that holds up to `limit` bytes. About 1.2 MB of them are for invalidations of
    /// the past.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let fixed = Recent::MOST_BYTES + SHARDS * size_of::<Mutex<Shard>>();
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            recent: Mutex::default(),
            shapes: Arc::default(),
            keys: Keys::default(),
            limit: limit.saturating_sub(fixed) / SHARDS,
        }
    }

    /// Add an object that becomes visible. One with the same handle that is still there gives
    /// way, also if this one is refused: the cache has used the handle again, so that one is
    /// gone.
    ///
    /// Out: the strongest invalidation that came after the object's fetch began. The object is
    /// in the index all the same, and the cache treats it as that invalidation would have.
    ///
    /// # Errors
    /// It is not in the index, and the cache must not keep it.
    pub fn insert(&self, handle: usize, entry: &Entry<'_>) -> Result<Option<Mode>, Refused> {
        let facts = self.facts(entry).inspect_err(|_| {
            self.remove(handle);
        })?;
        let used = facts.used();
        let mut shard = self.shard(handle);
        if let Some(former) = shard.remove(handle) {
            self.shapes.release(former);
        }
        if !self.shapes.retain(used) {
            return Err(Refused::Full);
        }
        shard.insert(handle, &facts, self.limit).inspect_err(|_| self.shapes.release(used))?;
        // An invalidation records itself, then visits the shards. If it has visited this one,
        // its record is complete; if it hasn't, it will find the object.
        if shard.invalidated == 0 || entry.started.nanos() > shard.invalidated {
            return Ok(None);
        }
        Ok(lock(&self.recent).covers(&self.keys, &facts, entry.started))
    }

    /// Whether an object would be refused at this moment.
    ///
    /// # Errors
    /// It would be.
    pub fn check(&self, handle: usize, entry: &Entry<'_>) -> Result<(), Refused> {
        let facts = self.facts(entry)?;
        self.shard(handle).check(&facts, self.limit)
    }

    /// Remove an object; no visitor has its handle from now on. Out: whether it was there.
    pub fn remove(&self, handle: usize) -> bool {
        let gone = self.shard(handle).remove(handle);
        gone.map(|used| self.shapes.release(used)).is_some()
    }

    /// A fetch begins for a host and a route, under a policy with this query. As long as it has
    /// what is returned, invalidations look for its response. None if all parameters count.
    ///
    /// # Errors
    /// The route's namespace has too many shapes: the response can't be stored.
    pub fn hold_shape(
        &self,
        route: &str,
        host: &[u8],
        query: &QueryPolicy,
    ) -> Result<Option<HeldShape>, Refused> {
        self.shapes.hold(self.keys.namespace_of(route), self.keys.host(host), query)
    }

    /// What the objects of a URI may be known as: the targets to invalidate.
    #[must_use]
    pub fn forms(&self, host: &[u8], target: &[u8], scope: &Scope<'_>) -> Vec<Vec<u8>> {
        self.shapes.forms(&self.keys, host, target, scope)
    }

    /// Visit the objects of an invalidation, and have [`insert`](Self::insert) report those
    /// that are being fetched. Out: how many objects the visitor counted.
    pub fn invalidate(&self, what: &Invalidation<'_>, visitor: &mut impl Visitor) -> u64 {
        let plan = Plan::new(&self.keys, &what.target, &what.scope);
        self.record(&plan, what);
        self.walk(&plan, Some(what.at), visitor, |_| true)
    }

    /// Visit the objects that a target names, and invalidate nothing. `goes_on` is asked before each
    /// batch, with how many objects the visitor has counted, while no lock is held.
    /// Out: how many it counted.
    pub fn look(
        &self,
        target: &Target<'_>,
        scope: &Scope<'_>,
        visitor: &mut impl Visitor,
        goes_on: impl Fn(u64) -> bool,
    ) -> u64 {
        self.walk(&Plan::new(&self.keys, target, scope), None, visitor, goes_on)
    }

    /// `at` is when an invalidation was received; None for a look.
    fn walk(
        &self,
        plan: &Plan<'_>,
        at: Option<Moment>,
        visitor: &mut impl Visitor,
        goes_on: impl Fn(u64) -> bool,
    ) -> u64 {
        let mut progress = Progress { index: self, walks: Default::default() };
        let mut counted = 0;
        // One batch of each shard in turn: those who wait for a lock get it meanwhile.
        while progress.walks.iter().any(|stage| !matches!(stage, Stage::Ended)) {
            for (shard, stage) in self.shards.iter().zip(&mut progress.walks) {
                if matches!(stage, Stage::Ended) {
                    continue;
                }
                if !goes_on(counted) {
                    return counted;
                }
                stage.ask(plan);
                counted += stage.batch(&mut lock(shard), plan, at, visitor);
                visitor.pause();
            }
        }
        counted
    }

    /// What it holds. The shards are counted one after the other.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let own = self.shards.len() * size_of::<Mutex<Shard>>() + Shapes::OWN_BYTES;
        let bytes = own + lock(&self.recent).bytes();
        let start = Usage { bytes, shapes: self.shapes.len(), ..Usage::default() };
        self.shards.iter().map(|shard| lock(shard)).fold(start, |sum, shard| Usage {
            objects: sum.objects + shard.objects.cells.len(),
            tags: sum.tags + shard.members(),
            bytes: sum.bytes + shard.bytes(),
            ..sum
        })
    }

    fn facts<'e>(&self, entry: &Entry<'e>) -> Result<Facts<'e>, Refused> {
        if entry.tags.len() > MAX_TAGS {
            return Err(Refused::TooManyTags);
        }
        if entry.target.len() > MAX_TARGET {
            return Err(Refused::TargetTooLong);
        }
        Ok(Facts {
            rule: self.keys.rule(entry.rule),
            route: self.keys.route(entry.route),
            namespace: self.keys.namespace_of(entry.route),
            host: self.keys.host(entry.host),
            target: entry.target,
            tags: self.keys.tags(entry.tags),
        })
    }

    fn record(&self, plan: &Plan<'_>, what: &Invalidation<'_>) {
        if lock(&self.recent).keep(plan, what.mode, what.at) {
            return;
        }
        for names in recent::names(&self.keys, plan).chunks(MARKS_AT_ONCE) {
            lock(&self.recent).mark(names, what.mode, what.at);
        }
    }

    fn shard(&self, handle: usize) -> MutexGuard<'_, Shard> {
        // The low bits choose a bucket within the shard.
        let number = mix(handle) >> (u64::BITS - SHARDS.trailing_zeros());
        lock(&self.shards[usize::try_from(number).unwrap_or(0)])
    }
}

/// How far an invalidation has come.
struct Progress<'a> {
    index: &'a Index,
    walks: [Stage; SHARDS],
}

impl Drop for Progress<'_> {
    /// A visitor that panics leaves walks that don't continue.
    fn drop(&mut self) {
        for (shard, stage) in self.index.shards.iter().zip(&mut self.walks) {
            if let Stage::Walking(walk) = stage {
                walk.abandon(&mut lock(shard));
            }
        }
    }
}

/// How far it has come in a shard.
#[derive(Default)]
enum Stage {
    #[default]
    Waiting,
    Walking(Walk),
    Ended,
}

impl Stage {
    fn ask(&mut self, plan: &Plan<'_>) {
        if let Self::Walking(walk) = self {
            walk.ask(plan);
        }
    }

    fn batch(
        &mut self,
        shard: &mut Shard,
        plan: &Plan<'_>,
        at: Option<Moment>,
        visitor: &mut impl Visitor,
    ) -> u64 {
        if let Self::Waiting = self {
            if let Some(at) = at {
                shard.invalidated = shard.invalidated.max(at.nanos()).max(1);
            }
            *self = Self::Walking(Walk::new(shard, plan));
        }
        let Self::Walking(walk) = self else { return 0 };
        let (counted, ended) = walk.batch(shard, plan, visitor);
        if ended {
            *self = Self::Ended;
        }
        counted
    }
}

/// A visitor that panicked has not changed what the lock protects.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
