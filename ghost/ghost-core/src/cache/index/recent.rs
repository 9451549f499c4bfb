//! Invalidations of the past, for objects whose fetch began before them.
//!
//! In:  invalidations with their time; later, an object with the time at which its fetch began.
//! Out: whether an invalidation that covers the object came in between. "No" is always true.
//!      "Yes" may be wrong: the object is fetched once more than necessary.
//!
//! Names are hashed to slots, and a slot keeps the time of the latest invalidation. Nothing is
//! ever forgotten, and the memory is the same whatever clients send. Names that share a slot
//! are invalidated together, of objects that are being fetched at that moment only. The hash
//! has a secret key, so no client can choose names that share a slot with those of others.
//!
//! Prefixes can't be hashed that way. The latest ones are kept as they are; before an older one
//! gives way, the slot of its host gets its time. A condition is remembered as the prefix that
//! comes with it. What reaches certain routes, or those of a namespace, only has slots of its own
//! for each of these. Where that would be too many slots, it counts as an
//! invalidation of everything that these routes serve: still of no other route.

use std::collections::VecDeque;
use std::mem::size_of;

use super::keys::{Key, Keys};
use super::purge::{Mode, Moment};
use super::shard::Facts;
use super::walk::{Owners, Plan, What};

/// How many slots: a power of two.
const SLOTS: usize = 1 << 16;
/// How many slots one invalidation of certain routes marks by name.
const MOST_MARKS: usize = 4096;
/// How many prefixes are kept, with how many bytes and routes each.
const PREFIXES: usize = 64;
const PREFIX_BYTES: usize = 1024;
const PREFIX_ROUTES: usize = 64;
/// How many slots are marked before others get the lock.
pub(super) const MARKS_AT_ONCE: usize = 1024;

/// What a slot stands for.
#[derive(Clone, Copy)]
enum Named {
    Everything,
    Route,
    Rule,
    Host,
    Uri,
    Tag,
}

/// The latest invalidation of each mode in nanoseconds, zero if there was none.
type Times = [u64; 2];

#[derive(Debug)]
struct Prefix {
    host: Key,
    /// Cut if it is long: it then covers more.
    bytes: Box<[u8]>,
    /// None: all routes.
    owners: Option<Box<[Key]>>,
    times: Times,
}

/// Slots and prefixes.
#[derive(Debug)]
pub(super) struct Recent {
    slots: Box<[Times]>,
    prefixes: VecDeque<Prefix>,
}

impl Default for Recent {
    fn default() -> Self {
        Self { slots: vec![[0; 2]; SLOTS].into(), prefixes: VecDeque::with_capacity(PREFIXES) }
    }
}

/// A slot to be marked.
#[derive(Clone, Copy)]
pub(super) struct Mark(usize);

impl Recent {
    /// The most bytes that it holds.
    pub(super) const MOST_BYTES: usize = SLOTS * size_of::<Times>()
        + PREFIXES * (size_of::<Prefix>() + PREFIX_BYTES + PREFIX_ROUTES * size_of::<Key>());

    /// The bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        let owned = |prefix: &Prefix| {
            let owners = prefix.owners.as_ref().map_or(0, |owners| owners.len());
            prefix.bytes.len() + owners * size_of::<Key>()
        };
        SLOTS * size_of::<Times>()
            + self.prefixes.capacity() * size_of::<Prefix>()
            + self.prefixes.iter().map(owned).sum::<usize>()
    }

    pub(super) fn mark(&mut self, marks: &[Mark], mode: Mode, at: Moment) {
        for mark in marks {
            raise(&mut self.slots[mark.0], times(mode, at));
        }
    }

    /// Remember a prefix. False if it has to be remembered as [`marks`] of its host.
    pub(super) fn keep_prefix(&mut self, plan: &Plan<'_>, mode: Mode, at: Moment) -> bool {
        let (What::Prefix { host, prefix: bytes @ [_, ..] }
        | What::Matching { host, prefix: bytes @ [_, ..], .. }) = plan.what
        else {
            return false;
        };
        if plan.owners.as_ref().is_some_and(|owners| owners.len() > PREFIX_ROUTES) {
            return false;
        }
        if self.prefixes.len() == PREFIXES {
            if let Some(oldest) = self.prefixes.pop_front() {
                self.generalise(&oldest);
            }
        }
        let bytes = bytes[..bytes.len().min(PREFIX_BYTES)].into();
        let owners = plan.owners.as_ref().map(|owners| owners.iter().copied().collect());
        self.prefixes.push_back(Prefix { host, bytes, owners, times: times(mode, at) });
        true
    }

    /// The strongest invalidation that covers an object and came after its fetch began.
    pub(super) fn covers(&self, keys: &Keys, facts: &Facts<'_>, started: Moment) -> Option<Mode> {
        let Facts { rule, route, namespace, host, target, ref tags } = *facts;
        let mut latest = self.slots[slot(Named::Everything, Key::default(), None)];
        for owner in [route, namespace] {
            raise(&mut latest, self.slots[slot(Named::Route, owner, None)]);
        }
        let single =
            [(Named::Rule, rule), (Named::Host, host), (Named::Uri, keys.uri(host, target))];
        for (named, key) in single.into_iter().chain(tags.iter().map(|&tag| (Named::Tag, tag))) {
            raise(&mut latest, self.slots[slot(named, key, None)]);
            for owner in [route, namespace] {
                raise(&mut latest, self.slots[slot(named, key, Some(owner))]);
            }
        }
        for prefix in &self.prefixes {
            let reaches = prefix
                .owners
                .as_ref()
                .is_none_or(|owners| owners.contains(&route) || owners.contains(&namespace));
            if prefix.host == host && reaches && target.starts_with(&prefix.bytes) {
                raise(&mut latest, prefix.times);
            }
        }
        let after = |mode: Mode| {
            let at = latest[mode as usize];
            at != 0 && started.nanos() <= at
        };
        [Mode::Hard, Mode::Soft].into_iter().find(|&mode| after(mode))
    }

    fn generalise(&mut self, prefix: &Prefix) {
        let owners = prefix.owners.as_ref().map(|owners| owners.iter());
        for at in slots_of(Named::Host, &[prefix.host], owners) {
            raise(&mut self.slots[at.0], prefix.times);
        }
    }
}

/// The slots of an invalidation; those of a prefix are the slots of its host.
pub(super) fn marks(keys: &Keys, plan: &Plan<'_>) -> Vec<Mark> {
    let (named, each) = match &plan.what {
        What::Uri { host, target } => (Named::Uri, vec![keys.uri(*host, target)]),
        What::Prefix { host, .. } | What::Matching { host, .. } => (Named::Host, vec![*host]),
        What::Tags(tags) => (Named::Tag, tags.clone()),
        What::Rule(rule) => (Named::Rule, vec![*rule]),
        What::Route { route, namespace } if plan.reaches(*route, *namespace) => {
            (Named::Route, vec![*route])
        }
        What::Route { .. } => return Vec::new(),
        What::Everything => (Named::Everything, vec![Key::default()]),
    };
    match (&plan.owners, named) {
        (None, _) | (_, Named::Route) => slots_of(named, &each, None::<[&Key; 0]>),
        (Some(owners), Named::Everything) => slots_of_owners(owners),
        (Some(owners), _) if owners.len().saturating_mul(each.len()) > MOST_MARKS => {
            slots_of_owners(owners)
        }
        (Some(owners), _) => slots_of(named, &each, Some(owners)),
    }
}

fn slots_of_owners(owners: &Owners) -> Vec<Mark> {
    owners.iter().map(|&owner| Mark(slot(Named::Route, owner, None))).collect()
}

fn slots_of<'a>(
    named: Named,
    each: &[Key],
    owners: Option<impl IntoIterator<Item = &'a Key>>,
) -> Vec<Mark> {
    let of = |owner: Option<Key>| each.iter().map(move |&key| Mark(slot(named, key, owner)));
    match owners {
        None => of(None).collect(),
        Some(owners) => owners.into_iter().flat_map(|&owner| of(Some(owner))).collect(),
    }
}

fn slot(named: Named, key: Key, owner: Option<Key>) -> usize {
    let owner = owner.map_or(0, |owner| owner.bits().rotate_left(29) | 1);
    let mixed = (key.bits() ^ owner).wrapping_add(named as u64);
    let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(mixed >> (64 - SLOTS.trailing_zeros())).unwrap_or(0)
}

fn times(mode: Mode, at: Moment) -> Times {
    let mut times = [0; 2];
    times[mode as usize] = at.nanos().max(1);
    times
}

fn raise(times: &mut Times, to: Times) {
    for (time, to) in times.iter_mut().zip(to) {
        *time = to.max(*time);
    }
}
