//! Invalidations of the past, for objects whose fetch began before them.
//!
//! In:  invalidations with their time; later, an object with the time at which its fetch began.
//! Out: whether an invalidation that covers the object came in between. "No" is always true.
//!      "Yes" may be wrong: the object is fetched once more than necessary.
//!
//! Names are hashed to [marks](super::marks) with the time of the latest invalidation and its
//! owner: the route or the namespace whose objects it reaches, or all. The memory is the same
//! whatever clients send, and floods of one owner's invalidations leave the fetches of others
//! alone. The hash has a secret key, so no client can choose names that meet those of others.
//!
//! Prefixes can't be hashed that way. The latest ones are kept as they are; before an older one
//! gives way, its host is marked with its time. A condition is remembered as the prefix that
//! comes with it. What reaches certain routes only is marked for each of these. Where that would
//! be too many marks, it counts as an invalidation of everything that these routes serve: still of
//! no other route.

use std::collections::VecDeque;
use std::mem::size_of;

use super::keys::{Key, Keys};
use super::marks::{raise, times, Marks, Name, Owner, Times};
use super::purge::{Mode, Moment};
use super::shard::Facts;
use super::walk::{Owners, Plan, What};

/// How many marks one invalidation of certain routes makes by name.
const MOST_MARKS: usize = 4096;
/// How many prefixes are kept, with how many bytes and routes each.
const PREFIXES: usize = 64;
const PREFIX_BYTES: usize = 1024;
const PREFIX_ROUTES: usize = 64;
/// How many marks are made before others get the lock.
pub(super) const MARKS_AT_ONCE: usize = 256;

#[derive(Debug)]
struct Prefix {
    host: Key,
    /// Cut if it is long: it then covers more.
    bytes: Box<[u8]>,
    /// None: all routes.
    owners: Option<Box<[Key]>>,
    times: Times,
}

/// Marks and prefixes.
#[derive(Debug)]
pub(super) struct Recent {
    /// Of invalidations of everything.
    everything: Times,
    marks: Marks,
    prefixes: VecDeque<Prefix>,
}

impl Default for Recent {
    fn default() -> Self {
        let prefixes = VecDeque::with_capacity(PREFIXES);
        Self { everything: [0; 2], marks: Marks::default(), prefixes }
    }
}

impl Recent {
    /// The most bytes that it holds.
    pub(super) const MOST_BYTES: usize = Marks::BYTES
        + PREFIXES * (size_of::<Prefix>() + PREFIX_BYTES + PREFIX_ROUTES * size_of::<Key>());

    /// The bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        let owned = |prefix: &Prefix| {
            let owners = prefix.owners.as_ref().map_or(0, |owners| owners.len());
            prefix.bytes.len() + owners * size_of::<Key>()
        };
        Marks::BYTES
            + self.prefixes.capacity() * size_of::<Prefix>()
            + self.prefixes.iter().map(owned).sum::<usize>()
    }

    pub(super) fn mark(&mut self, names: &[Name], mode: Mode, at: Moment) {
        for &name in names {
            self.marks.mark(name, times(mode, at));
        }
    }

    /// Remember an invalidation of everything, or of a prefix. False if it has to be remembered by
    /// its [`names`].
    pub(super) fn keep(&mut self, plan: &Plan<'_>, mode: Mode, at: Moment) -> bool {
        if let (What::Everything, None) = (&plan.what, &plan.owners) {
            raise(&mut self.everything, times(mode, at));
            return true;
        }
        self.keep_prefix(plan, mode, at)
    }

    /// False if it has to be remembered as its host.
    fn keep_prefix(&mut self, plan: &Plan<'_>, mode: Mode, at: Moment) -> bool {
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
        let mut latest = self.everything;
        let owners = [Owner::ALL, Owner::of(route), Owner::of(namespace)];
        let single = [route, namespace, rule, host, keys.uri(host, target)];
        for name in single.into_iter().chain(tags.iter().copied()) {
            raise(&mut latest, self.marks.latest(name, &owners));
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
        for name in names_of(&[prefix.host], owners) {
            self.marks.mark(name, prefix.times);
        }
    }
}

/// What an invalidation is remembered by: of a prefix, its host.
pub(super) fn names(keys: &Keys, plan: &Plan<'_>) -> Vec<Name> {
    let each = match &plan.what {
        What::Uri { host, target } => vec![keys.uri(*host, target)],
        What::Prefix { host, .. } | What::Matching { host, .. } => vec![*host],
        What::Tags(tags) => tags.clone(),
        What::Rule(rule) => vec![*rule],
        What::Route { route, namespace } if plan.reaches(*route, *namespace) => {
            return vec![Name { key: *route, owner: Owner::of(*namespace) }];
        }
        What::Route { .. } => return Vec::new(),
        What::Everything => return plan.owners.as_ref().map_or_else(Vec::new, whole),
    };
    match &plan.owners {
        None => names_of(&each, None::<[&Key; 0]>),
        Some(owners) if owners.len().saturating_mul(each.len()) > MOST_MARKS => whole(owners),
        Some(owners) => names_of(&each, Some(owners)),
    }
}

/// Everything that routes or namespaces serve.
fn whole(owners: &Owners) -> Vec<Name> {
    owners.iter().map(|&key| Name { key, owner: Owner::of(key) }).collect()
}

fn names_of<'a>(each: &[Key], owners: Option<impl IntoIterator<Item = &'a Key>>) -> Vec<Name> {
    let of = |owner: Owner| each.iter().map(move |&key| Name { key, owner });
    match owners {
        None => of(Owner::ALL).collect(),
        Some(owners) => owners.into_iter().flat_map(|&owner| of(Owner::of(owner))).collect(),
    }
}
