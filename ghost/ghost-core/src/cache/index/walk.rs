//! One invalidation, batch by batch.
//!
//! In:  a shard, locked, and the place where the previous batch ended.
//! Out: calls of the visitor, and the place for the next batch. Between two batches the shard
//!      may change in any way: an object that is there all the time is visited exactly once.

use std::collections::HashSet;
use std::mem::take;

use foldhash::fast::RandomState;

use super::keys::{Key, Keys};
use super::list::List;
use super::purge::{Condition, Scope, Target, Visitor};
use super::shard::Shard;
use super::slab::NONE;
use super::tree::Unread;

/// How many objects or tags are looked at under one lock. A visit takes about a microsecond
/// where varnishd kills or rearms an object.
pub const BATCH: usize = 64;

/// How many bytes of URIs are copied under one lock for a condition.
const ASKED_BYTES: usize = 64 << 10;

/// How many objects of a URI are looked at before a condition is asked about it.
const LOOKED_AT: usize = 16;

/// Keys of routes, or that of a namespace.
pub(super) type Owners = HashSet<Key, RandomState>;

/// An invalidation, resolved to keys.
pub(super) struct Plan<'a> {
    pub(super) what: What<'a>,
    /// None: all routes.
    pub(super) owners: Option<Owners>,
}

pub(super) enum What<'a> {
    Uri { host: Key, target: &'a [u8] },
    Prefix { host: Key, prefix: &'a [u8] },
    Matching { host: Key, prefix: &'a [u8], matches: Condition<'a> },
    Tags(Vec<Key>),
    Rule(Key),
    Route { route: Key, namespace: Key },
    Everything,
}

impl<'a> Plan<'a> {
    pub(super) fn new(keys: &Keys, target: &Target<'a>, scope: &Scope<'_>) -> Self {
        let what = match *target {
            Target::Uri { host, target } => What::Uri { host: keys.host(host), target },
            Target::Prefix { host, prefix } => What::Prefix { host: keys.host(host), prefix },
            Target::Matching { host, prefix, matches } => {
                What::Matching { host: keys.host(host), prefix, matches }
            }
            Target::Host(host) => What::Prefix { host: keys.host(host), prefix: b"" },
            Target::Tags(tags) => What::Tags(keys.tags(tags)),
            Target::Rule(rule) => What::Rule(keys.rule(rule)),
            Target::Route(route) => {
                What::Route { route: keys.route(route), namespace: keys.namespace_of(route) }
            }
            Target::Everything => What::Everything,
        };
        let owners = match scope {
            Scope::All => None,
            Scope::Routes(routes) => Some(routes.iter().map(|route| keys.route(route)).collect()),
            Scope::Namespace(name) => Some([keys.namespace(name)].into_iter().collect()),
            Scope::Owners { namespaces, routes } => {
                let namespaces = namespaces.iter().map(|name| keys.namespace(name));
                Some(namespaces.chain(routes.iter().map(|route| keys.route(route))).collect())
            }
        };
        Self { what, owners }
    }

    pub(super) fn reaches(&self, route: Key, namespace: Key) -> bool {
        let reaches = |owners: &Owners| owners.contains(&route) || owners.contains(&namespace);
        self.owners.as_ref().is_none_or(reaches)
    }

    fn list(&self) -> List {
        match self.what {
            What::Uri { .. } | What::Prefix { .. } | What::Matching { .. } => List::Uri,
            What::Tags(_) => List::Tag,
            What::Rule(_) | What::Route { .. } | What::Everything => List::Rule,
        }
    }
}

/// How far a walk through a shard has come.
#[derive(Default)]
pub(super) struct Walk {
    /// How many lists were begun, of those that are numbered.
    lists: usize,
    /// Where the current list continues: the number of a [cursor](super::list::Cursors).
    cursor: Option<u32>,
    /// The URI whose list was begun last.
    last: Option<Box<[u8]>>,
    /// URIs that a condition is to be asked about, and those that meet it.
    unasked: Vec<Box<[u8]>>,
    due: Vec<Box<[u8]>>,
    /// What was visited by another tag, a bit for each object; None if there is one tag only.
    visited: Option<Vec<u64>>,
    /// Where rules ended when it began.
    rules: usize,
    /// How many steps it takes if nothing is inserted meanwhile, and how many it has taken.
    expected: usize,
    steps: usize,
}

/// The next list of objects.
enum Next {
    List(u32),
    /// It is empty.
    Empty,
    /// It depends on a condition, which is asked without the lock.
    Unasked,
    End,
}

/// What a walk knows as long as it holds the lock.
struct Held<'a> {
    shard: &'a Shard,
    plan: &'a Plan<'a>,
    unread: Option<Unread>,
    uri: Option<u32>,
}

impl Walk {
    pub(super) fn new(shard: &Shard, plan: &Plan<'_>) -> Self {
        let (rules, objects) = (shard.rules.cells.end(), shard.objects.cells.end());
        let (tags, visited) = match &plan.what {
            What::Tags(tags) if tags.len() > 1 => (tags.len(), Some(vec![0; objects.div_ceil(64)])),
            _ => (1, None),
        };
        let expected = 2 * shard.objects.cells.len() + shard.members() + rules + tags;
        Self { visited, rules, expected, ..Self::default() }
    }

    /// Ask the condition about the URIs that the last batch has read. No lock is held.
    pub(super) fn ask(&mut self, plan: &Plan<'_>) {
        if let What::Matching { matches, .. } = plan.what {
            self.due = take(&mut self.unasked);
            self.due.retain(|target| (matches.0)(target));
        }
    }

    /// Visit a batch. Out: how many objects count, and whether the walk has ended.
    pub(super) fn batch(
        &mut self,
        shard: &mut Shard,
        plan: &Plan<'_>,
        visitor: &mut impl Visitor,
    ) -> (u64, bool) {
        let list = plan.list();
        let mut place = self.cursor.take().map_or(NONE, |cursor| shard.cursors.take(cursor));
        let mut held = Held { shard, plan, unread: None, uri: None };
        let mut counted = 0;
        for _ in 0..self.size() {
            self.steps += 1;
            if place == NONE {
                match self.next_list(&mut held) {
                    Next::List(first) => place = first,
                    Next::Empty => {}
                    Next::Unasked => break,
                    Next::End => return (counted, true),
                }
                continue;
            }
            let (object, next) = held.shard.at(list, place);
            place = next;
            if self.is_due(&held, object) {
                counted += u64::from(visitor.visit(held.shard.objects.cells[object].handle));
            }
        }
        if let Some(uri) = held.uri {
            self.last = Some(held.shard.trees.uris[uri].target.clone());
        }
        if place != NONE {
            self.cursor = Some(shard.cursors.register(list, place));
        }
        (counted, false)
    }

    pub(super) fn abandon(&mut self, shard: &mut Shard) {
        if let Some(cursor) = self.cursor.take() {
            shard.cursors.take(cursor);
        }
    }

    /// A walk that has been outrun by insertions ahead of it takes larger batches, until it
    /// outruns them.
    fn size(&self) -> usize {
        BATCH << (self.steps / (self.expected + BATCH)).min(20)
    }

    fn next_list(&mut self, held: &mut Held<'_>) -> Next {
        let number = self.lists;
        self.lists += 1;
        let shard = held.shard;
        let found = match &held.plan.what {
            What::Prefix { host, prefix } => {
                let last = self.last.as_deref();
                let Some(uri) = held.next_uri(*host, prefix, last) else { return Next::End };
                Some(shard.trees.uris[uri].objects)
            }
            What::Matching { host, prefix, .. } => match self.due.pop() {
                Some(target) => held.objects_of_uri(*host, &target),
                None if self.read_unasked(held, *host, prefix) => return Next::Unasked,
                None => return Next::End,
            },
            What::Tags(tags) => {
                let Some(&tag) = tags.get(number) else { return Next::End };
                shard.tags.find(tag).map(|tag| shard.tags.cells[tag].members)
            }
            What::Route { .. } | What::Everything if number >= self.rules => return Next::End,
            What::Route { route, .. } => held.rule(number, |rule| rule == *route),
            What::Everything => held.rule(number, |_| true),
            What::Uri { .. } | What::Rule(_) if number > 0 => return Next::End,
            What::Uri { host, target } => held.objects_of_uri(*host, target),
            What::Rule(rule) => shard.rules.find(*rule).map(|rule| shard.rules.cells[rule].objects),
        };
        found.filter(|&first| first != NONE).map_or(Next::Empty, Next::List)
    }

    /// Read URIs that a condition is to be asked about: not those of others than the sender may
    /// reach, whose objects cost more to ask about than to skip. Out: whether the walk goes on.
    fn read_unasked(&mut self, held: &mut Held<'_>, host: Key, prefix: &[u8]) -> bool {
        let (mut bytes, mut read) = (0, None);
        for _ in 0..self.size() {
            let last = self.last.as_deref();
            let Some(uri) = held.next_uri(host, prefix, last) else { break };
            read = Some(uri);
            self.steps += 1;
            if held.may_reach(uri) {
                let target = held.shard.trees.uris[uri].target.clone();
                bytes += target.len();
                self.unasked.push(target);
            }
            if bytes >= ASKED_BYTES {
                break;
            }
        }
        // The walk may have come to the end, where there is no URI to continue after.
        if let Some(read) = read {
            self.last = Some(held.shard.trees.uris[read].target.clone());
        }
        read.is_some()
    }

    fn is_due(&mut self, held: &Held<'_>, object: u32) -> bool {
        let rule = &held.shard.rules.cells[held.shard.objects.cells[object].rule];
        held.plan.reaches(rule.route, rule.namespace) && !self.was_visited(object)
    }

    /// Whether an object was visited by another tag. What was inserted after the walk began
    /// counts as visited.
    fn was_visited(&mut self, object: u32) -> bool {
        let Some(visited) = &mut self.visited else { return false };
        let Some(bits) = visited.get_mut((object / 64) as usize) else { return true };
        let bit = 1 << (object % 64);
        let was = *bits & bit != 0;
        *bits |= bit;
        was
    }
}

impl Held<'_> {
    fn next_uri(&mut self, host: Key, prefix: &[u8], last: Option<&[u8]>) -> Option<u32> {
        let trees = &self.shard.trees;
        if self.unread.is_none() {
            let host = self.shard.hosts.find(host)?;
            self.unread = Some(trees.seek(self.shard.hosts.cells[host].root, prefix, last));
        }
        self.uri = self.unread.as_mut().and_then(|unread| trees.read(unread));
        self.uri
    }

    /// Whether a URI may have an object that the sender may reach.
    fn may_reach(&self, uri: u32) -> bool {
        let Self { shard, plan, .. } = self;
        if plan.owners.is_none() {
            return true;
        }
        let mut place = shard.trees.uris[uri].objects;
        for _ in 0..LOOKED_AT {
            if place == NONE {
                return false;
            }
            let (object, next) = shard.at(List::Uri, place);
            let rule = &shard.rules.cells[shard.objects.cells[object].rule];
            if plan.reaches(rule.route, rule.namespace) {
                return true;
            }
            place = next;
        }
        true
    }

    fn objects_of_uri(&self, host: Key, target: &[u8]) -> Option<u32> {
        let host = self.shard.hosts.find(host)?;
        let uri = self.shard.trees.find(self.shard.hosts.cells[host].root, target)?;
        Some(self.shard.trees.uris[uri].objects)
    }

    /// The objects of the rule with this number, if it is within reach.
    fn rule(&self, number: usize, of_route: impl Fn(Key) -> bool) -> Option<u32> {
        let rule = self.shard.rules.cells.get(u32::try_from(number).ok()?)?;
        (of_route(rule.route) && self.plan.reaches(rule.route, rule.namespace))
            .then_some(rule.objects)
    }
}
