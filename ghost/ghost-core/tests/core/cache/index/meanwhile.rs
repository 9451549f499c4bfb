//! The index changes between the batches of an invalidation.

use std::collections::HashMap;

use ghost_core::cache::index::{Index, Scope, Target, Visitor, BATCH};
use proptest::prelude::*;

use super::model::{named, Item, HOSTS, RULES, TAGS};
use super::{entry, soft, ROOM};
use crate::support::cases;

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    /// Few URIs and tags, so that their lists are longer than a batch.
    fn item(&mut self) -> Item {
        let length = self.below(4);
        Item {
            rule: self.below(RULES.len()),
            host: self.below(HOSTS.len()),
            target: (0..length).map(|_| b"/ab\xff"[self.below(4)]).collect(),
            tags: (0..3).map(|_| self.below(TAGS.len())).collect(),
            started: 100,
        }
    }
}

const HANDLES: usize = 6_000;

/// Visits, and changes the index in each pause.
struct Meanwhile<'a> {
    index: &'a Index,
    /// Objects with the number of their insertion.
    objects: &'a mut HashMap<usize, (usize, Item)>,
    random: Random,
    inserted: usize,
    changes: usize,
    target: Target<'a>,
    scope: Scope<'a>,
    /// Numbers of insertions.
    visited: Vec<usize>,
    in_batch: usize,
}

impl Meanwhile<'_> {
    fn change(&mut self) {
        let handle = self.random.below(HANDLES);
        if self.random.below(2) == 0 {
            assert_eq!(self.index.remove(handle), self.objects.remove(&handle).is_some());
        } else {
            let item = self.random.item();
            item.insert(self.index, handle);
            self.inserted += 1;
            self.objects.insert(handle, (self.inserted, item));
        }
    }
}

impl Visitor for Meanwhile<'_> {
    fn visit(&mut self, handle: usize) -> bool {
        let (number, item) = &self.objects[&handle];
        assert!(item.is_named(&self.target, &self.scope), "{item:?}");
        self.visited.push(*number);
        self.in_batch += 1;
        assert!(self.in_batch <= BATCH, "a lock is held for {} objects", self.in_batch);
        true
    }

    fn pause(&mut self) {
        self.in_batch = 0;
        for _ in 0..self.changes {
            self.change();
        }
    }
}

fn check(seed: u64, changes: usize, target: Target<'_>, scope: Scope<'_>) {
    let index = Index::new(ROOM);
    let mut objects = HashMap::new();
    let mut walk = Meanwhile {
        index: &index,
        objects: &mut objects,
        random: Random(seed | 1),
        inserted: 0,
        changes,
        target,
        scope,
        visited: Vec::new(),
        in_batch: 0,
    };
    for _ in 0..HANDLES {
        walk.change();
    }
    let start: HashMap<_, _> =
        walk.objects.iter().map(|(&handle, (at, _))| (handle, *at)).collect();
    let count = index.invalidate(&soft(target, scope), &mut walk);
    let mut visited = walk.visited;
    assert_eq!(count, visited.len() as u64);
    visited.sort_unstable();
    assert!(visited.windows(2).all(|pair| pair[0] != pair[1]), "an object is visited twice");
    for (handle, (number, item)) in &objects {
        if start.get(handle) == Some(number) && item.is_named(&target, &scope) {
            assert!(visited.binary_search(number).is_ok(), "{item:?} is missed");
        }
    }
    assert_eq!(index.usage().objects, objects.len());
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn objects_that_stay_are_visited_once_while_others_come_and_go(
        seed in any::<u64>(), changes in 0_usize..40, named in named()
    ) {
        named.with(|target, scope| check(seed, changes, target, scope));
    }
}

/// Each of the long walks, whatever proptest chooses.
#[test]
fn long_walks_lose_no_object_while_others_come_and_go() {
    for target in [
        Target::Uri { host: HOSTS[0], target: b"" },
        Target::Host(HOSTS[1]),
        Target::Tags(&TAGS),
        Target::Tags(&TAGS[..1]),
        Target::Rule(RULES[0].0),
        Target::Everything,
    ] {
        for changes in [0, 10, 60] {
            check(42 + changes as u64, changes, target, Scope::All);
        }
    }
}

/// Inserts URIs ahead of every walk, faster than it visits them.
struct Outrunning<'a> {
    index: &'a Index,
    inserted: usize,
    pauses: usize,
}

impl Visitor for Outrunning<'_> {
    fn visit(&mut self, _: usize) -> bool {
        true
    }

    fn pause(&mut self) {
        self.pauses += 1;
        assert!(self.pauses < 10_000, "it doesn't end");
        for _ in 0..2 * BATCH {
            self.inserted += 1;
            let target = format!("/z{:08}", self.inserted);
            self.index.insert(self.inserted, &entry("a.example", &target, &[b"t"])).unwrap();
        }
    }
}

#[test]
fn purge_ends_although_insertions_outrun_it() {
    for target in [
        Target::Host(b"a.example"),
        Target::Prefix { host: b"a.example", prefix: b"/z" },
        Target::Tags(&[b"t", b"u"]),
        Target::Everything,
    ] {
        let index = Index::new(ROOM);
        let mut visitor = Outrunning { index: &index, inserted: 0, pauses: 0 };
        visitor.pause();
        index.invalidate(&soft(target, Scope::All), &mut visitor);
    }
}

/// Stores objects in each pause whose fetch began before the invalidation.
struct Storing<'a> {
    index: &'a Index,
    /// By handle: whether it is served as fresh.
    fresh: Vec<bool>,
}

impl Visitor for Storing<'_> {
    fn visit(&mut self, handle: usize) -> bool {
        self.fresh[handle] = false;
        true
    }

    fn pause(&mut self) {
        for _ in 0..10 {
            let stored = entry("a.example", "/x", &[b"t"]);
            let reported = self.index.insert(self.fresh.len(), &stored).unwrap();
            self.fresh.push(reported.is_none());
        }
    }
}

#[test]
fn object_that_is_stored_between_two_batches_is_visited_or_reported() {
    for target in [
        Target::Everything,
        Target::Rule("ns/shop/0"),
        Target::Tags(&[b"t", b"u"]),
        Target::Host(b"a.example"),
        Target::Tags(&[b"t"]),
        Target::Prefix { host: b"a.example", prefix: b"/x" },
        Target::Uri { host: b"a.example", target: b"/x" },
    ] {
        let index = Index::new(ROOM);
        let mut visitor = Storing { index: &index, fresh: Vec::new() };
        visitor.pause();
        index.invalidate(&soft(target, Scope::All), &mut visitor);
        assert!(visitor.fresh.len() > 100, "{target:?}");
        assert!(visitor.fresh.iter().all(|fresh| !fresh), "{target:?} leaves a fresh object");
    }
}
