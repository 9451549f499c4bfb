//! One part of the index: the objects whose handles fall into it.

use std::mem::size_of;

use super::keys::Key;
use super::list::{self, Cursors, Links, List};
use super::map::{Keyed, Map};
use super::shapes::{shape_of, Use};
use super::share;
use super::slab::{Cell, Slab, NONE};
use super::tree::Trees;
use super::Refused;

/// What is known of an object that is inserted.
pub(super) struct Facts<'a> {
    pub(super) rule: Key,
    pub(super) route: Key,
    pub(super) namespace: Key,
    pub(super) host: Key,
    pub(super) target: &'a [u8],
    /// Without repetitions.
    pub(super) tags: Vec<Key>,
}

impl Facts<'_> {
    pub(super) fn used(&self) -> Use {
        Use { namespace: self.namespace, host: self.host, shape: shape_of(self.target) }
    }
}

/// What an object counts for its namespace. See [`share`].
fn charge(target: usize, tags: usize) -> usize {
    /// Of a map, for each cell.
    const BUCKET: usize = 2 * size_of::<u32>();
    const OBJECT: usize = size_of::<Object>() + BUCKET + Trees::BYTES_OF_URI;
    const TAG: usize = size_of::<Tag>() + BUCKET + size_of::<Member>();
    OBJECT + target + tags * TAG
}

#[derive(Debug, Default)]
pub(super) struct Object {
    pub(super) handle: usize,
    chain: u32,
    uri: u32,
    by_uri: Links,
    pub(super) rule: u32,
    by_rule: Links,
    /// The first of its members.
    members: u32,
}

/// An object that has a tag.
#[derive(Debug, Default)]
struct Member {
    tag: u32,
    object: u32,
    by_tag: Links,
    /// The next member of the same object.
    sibling: u32,
}

#[derive(Debug, Default)]
pub(super) struct Host {
    key: Key,
    chain: u32,
    /// Of the tree of its URIs.
    pub(super) root: u32,
}

#[derive(Debug, Default)]
pub(super) struct Tag {
    key: Key,
    chain: u32,
    pub(super) members: u32,
}

#[derive(Debug)]
pub(super) struct Rule {
    key: Key,
    pub(super) route: Key,
    pub(super) namespace: Key,
    chain: u32,
    /// [`NONE`] in a free cell: a rule without objects is removed.
    pub(super) objects: u32,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            key: Key::default(),
            route: Key::default(),
            namespace: Key::default(),
            chain: NONE,
            objects: NONE,
        }
    }
}

/// A namespace with objects.
#[derive(Debug, Default)]
struct Namespace {
    key: Key,
    chain: u32,
    /// What its objects count.
    held: usize,
}

impl Cell for Member {
    const CHUNK: u32 = 256;

    fn link(&mut self) -> &mut u32 {
        &mut self.sibling
    }
}

/// A cell with the fields `key` and `chain`.
macro_rules! keyed {
    ($cell:ty, $chunk:expr, $key:ty, $field:ident, $hash:expr) => {
        impl Cell for $cell {
            const CHUNK: u32 = $chunk;

            fn link(&mut self) -> &mut u32 {
                &mut self.chain
            }
        }

        impl Keyed for $cell {
            type Key = $key;

            fn key(&self) -> $key {
                self.$field
            }

            fn next(&self) -> u32 {
                self.chain
            }

            fn hash(key: $key) -> u64 {
                $hash(key)
            }
        }
    };
}

keyed!(Object, 256, usize, handle, mix);
keyed!(Host, 64, Key, key, Key::bits);
keyed!(Tag, 64, Key, key, Key::bits);
keyed!(Rule, 64, Key, key, Key::bits);
keyed!(Namespace, 16, Key, key, Key::bits);

/// Spread handles, which are multiples of a power of two. Clients don't choose them.
pub(super) fn mix(handle: usize) -> u64 {
    let mut bits = handle as u64;
    bits = (bits ^ bits >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits = (bits ^ bits >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ bits >> 33
}

#[derive(Debug, Default)]
pub(super) struct Shard {
    pub(super) objects: Map<Object>,
    pub(super) hosts: Map<Host>,
    pub(super) tags: Map<Tag>,
    pub(super) rules: Map<Rule>,
    pub(super) trees: Trees,
    members: Slab<Member>,
    namespaces: Map<Namespace>,
    pub(super) cursors: Cursors,
    /// The time of the latest invalidation that has begun here; zero if there was none.
    pub(super) invalidated: u64,
}

impl Shard {
    /// Insert an object; there is none with this handle.
    ///
    /// # Errors
    /// It would hold more than `limit` bytes then, or the object's namespace more than its share.
    pub(super) fn insert(
        &mut self,
        handle: usize,
        facts: &Facts<'_>,
        limit: usize,
    ) -> Result<(), Refused> {
        self.check(facts, limit)?;
        let Facts { host: key, rule: rule_key, route, namespace, .. } = *facts;
        let host = self.hosts.find_or_insert(key, || Host { key, chain: NONE, root: NONE });
        let root = &mut self.hosts.cells[host].root;
        let uri = self.trees.find_or_insert(host, root, facts.target);
        let new = || Rule { key: rule_key, route, namespace, ..Rule::default() };
        let rule = self.rules.find_or_insert(rule_key, new);
        let new = Object { handle, uri, rule, members: NONE, ..Object::default() };
        let object = self.objects.insert(new);
        let objects = &mut self.objects.cells;
        list::push(objects, |cell| &mut cell.by_uri, &mut self.trees.uris[uri].objects, object);
        list::push(objects, |cell| &mut cell.by_rule, &mut self.rules.cells[rule].objects, object);
        for &key in &facts.tags {
            self.add_member(object, key);
        }
        let new = || Namespace { key: namespace, chain: NONE, held: 0 };
        let owner = self.namespaces.find_or_insert(namespace, new);
        self.namespaces.cells[owner].held += charge(facts.target.len(), facts.tags.len());
        Ok(())
    }

    /// # Errors
    /// With this object it would hold more than `limit` bytes, or the object's namespace more
    /// than its share of them.
    pub(super) fn check(&self, facts: &Facts<'_>, limit: usize) -> Result<(), Refused> {
        let used = self.bytes().saturating_add(self.growth(facts));
        let free = limit.checked_sub(used).ok_or(Refused::Full)?;
        let owner = self.namespaces.find(facts.namespace);
        let held = owner.map_or(0, |owner| self.namespaces.cells[owner].held);
        let own = held + charge(facts.target.len(), facts.tags.len());
        share::allows(own, free, limit).then_some(()).ok_or(Refused::Full)
    }

    /// Remove an object, if there is one. Out: what it was.
    pub(super) fn remove(&mut self, handle: usize) -> Option<Use> {
        let slot = self.objects.find(handle)?;
        let Object { uri, rule, .. } = self.objects.cells[slot];
        let uri = &self.trees.uris[uri];
        let (target, mut tags) = (uri.target.len(), 0);
        let (host, shape) = (self.hosts.cells[uri.host].key, shape_of(&uri.target));
        let namespace = self.rules.cells[rule].namespace;
        self.unlink_from_uri(slot);
        self.unlink_from_rule(slot);
        let mut member = self.objects.remove(slot).members;
        while member != NONE {
            member = self.remove_member(member);
            tags += 1;
        }
        self.give_back(namespace, charge(target, tags));
        Some(Use { namespace, host, shape })
    }

    /// How many pairs of an object and one of its tags there are.
    pub(super) fn members(&self) -> usize {
        self.members.len()
    }

    /// The bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.objects.bytes()
            + self.hosts.bytes()
            + self.tags.bytes()
            + self.rules.bytes()
            + self.trees.bytes()
            + self.members.bytes()
            + self.namespaces.bytes()
            + self.cursors.bytes()
    }

    /// The object at a place of a list, and the place that follows.
    pub(super) fn at(&self, list: List, slot: u32) -> (u32, u32) {
        match list {
            List::Uri => (slot, self.objects.cells[slot].by_uri.next),
            List::Rule => (slot, self.objects.cells[slot].by_rule.next),
            List::Tag => (self.members[slot].object, self.members[slot].by_tag.next),
        }
    }

    /// At most so many bytes more than now, once this is inserted.
    fn growth(&self, facts: &Facts<'_>) -> usize {
        let tags = facts.tags.len();
        let parts = [
            self.hosts.growth(1),
            self.trees.growth(facts.target),
            self.rules.growth(1),
            self.objects.growth(1),
            self.tags.growth(tags),
            self.members.growth(tags),
            self.namespaces.growth(1),
        ];
        parts.into_iter().fold(0, usize::saturating_add)
    }

    /// An object of a namespace is gone.
    fn give_back(&mut self, namespace: Key, bytes: usize) {
        let Some(owner) = self.namespaces.find(namespace) else { return };
        let held = &mut self.namespaces.cells[owner].held;
        *held = held.saturating_sub(bytes);
        // An object counts something.
        if *held == 0 {
            self.namespaces.remove(owner);
        }
    }

    fn add_member(&mut self, object: u32, key: Key) {
        let tag = self.tags.find_or_insert(key, || Tag { key, chain: NONE, members: NONE });
        let first = &mut self.objects.cells[object].members;
        let new = Member { tag, object, by_tag: Links::default(), sibling: *first };
        let member = self.members.insert(new);
        *first = member;
        let head = &mut self.tags.cells[tag].members;
        list::push(&mut self.members, |cell| &mut cell.by_tag, head, member);
    }

    /// Out: the next member of the object.
    fn remove_member(&mut self, member: u32) -> u32 {
        let tag = self.members[member].tag;
        let head = &mut self.tags.cells[tag].members;
        let next = list::unlink(&mut self.members, |cell| &mut cell.by_tag, head, member);
        if *head == NONE {
            self.tags.remove(tag);
        }
        self.cursors.unlinked(List::Tag, member, next);
        self.members.remove(member).sibling
    }

    fn unlink_from_uri(&mut self, object: u32) {
        let objects = &mut self.objects.cells;
        let uri = objects[object].uri;
        let head = &mut self.trees.uris[uri].objects;
        let next = list::unlink(objects, |cell| &mut cell.by_uri, head, object);
        self.cursors.unlinked(List::Uri, object, next);
        if *head == NONE {
            let host = self.trees.uris[uri].host;
            let root = &mut self.hosts.cells[host].root;
            self.trees.remove(root, uri);
            if *root == NONE {
                self.hosts.remove(host);
            }
        }
    }

    fn unlink_from_rule(&mut self, object: u32) {
        let objects = &mut self.objects.cells;
        let rule = objects[object].rule;
        let head = &mut self.rules.cells[rule].objects;
        let next = list::unlink(objects, |cell| &mut cell.by_rule, head, object);
        self.cursors.unlinked(List::Rule, object, next);
        if *head == NONE {
            self.rules.remove(rule);
        }
    }
}
