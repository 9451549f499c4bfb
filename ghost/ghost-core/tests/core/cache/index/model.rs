//! The index against a list of all objects.

use ghost_core::cache::index::{
    Condition, Entry, Index, Invalidation, Mode, Moment, Scope, Target,
};
use proptest::prelude::*;

use super::ROOM;
use crate::support::cases;

pub(super) const RULES: [(&str, &str); 4] =
    [("a/r/0", "a/r"), ("a/r/1", "a/r"), ("b/r/0", "b/r"), ("b/s/0", "b/s")];
pub(super) const HOSTS: [&[u8]; 3] = [b"a.example", b"b.example", b""];
pub(super) const TAGS: [&[u8]; 6] = [b"", b"x", b"x ", b"\x00", b"\xff\xfe", b"front"];
const SCOPES: [Scope<'_>; 10] = [
    Scope::All,
    Scope::Routes(&[]),
    Scope::Routes(&["a/r"]),
    Scope::Routes(&["b/s", "c/x"]),
    Scope::Routes(&["a/r", "b/r", "b/s"]),
    Scope::Namespace("b"),
    Scope::Namespace("c"),
    Scope::Owners { namespaces: &["b", "c"], routes: &[] },
    Scope::Owners { namespaces: &["c"], routes: &["a/r", "b/s"] },
    Scope::Owners { namespaces: &[], routes: &[] },
];

/// An object as the model knows it, by numbers of names.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) rule: usize,
    pub(super) host: usize,
    pub(super) target: Vec<u8>,
    pub(super) tags: Vec<usize>,
    pub(super) started: u64,
}

impl Item {
    pub(super) fn insert(&self, index: &Index, handle: usize) -> Option<Mode> {
        let tags: Vec<_> = self.tags.iter().map(|&tag| TAGS[tag]).collect();
        let (rule, route) = RULES[self.rule];
        let entry = Entry {
            rule,
            route,
            host: HOSTS[self.host],
            target: &self.target,
            tags: &tags,
            started: Moment::from_nanos(self.started),
        };
        index.insert(handle, &entry).unwrap()
    }

    pub(super) fn is_named(&self, target: &Target<'_>, scope: &Scope<'_>) -> bool {
        let (rule, route) = RULES[self.rule];
        let host = HOSTS[self.host];
        let named = match *target {
            Target::Uri { host: of, target } => host == of && self.target == target,
            Target::Prefix { host: of, prefix } => host == of && self.target.starts_with(prefix),
            Target::Matching { host: of, prefix, matches } => {
                host == of && self.target.starts_with(prefix) && (matches.0)(&self.target)
            }
            Target::Host(of) => host == of,
            Target::Tags(tags) => self.tags.iter().any(|&tag| tags.contains(&TAGS[tag])),
            Target::Rule(of) => rule == of,
            Target::Route(of) => route == of,
            Target::Everything => true,
        };
        let reached = match scope {
            Scope::All => true,
            Scope::Routes(routes) => routes.contains(&route),
            Scope::Namespace(name) => route.split('/').next() == Some(name),
            Scope::Owners { namespaces, routes } => {
                let namespace = route.split('/').next().unwrap();
                namespaces.contains(&namespace) || routes.contains(&route)
            }
        };
        named && reached
    }

    pub(super) fn distinct_tags(&self) -> usize {
        let mut tags = self.tags.clone();
        tags.sort_unstable();
        tags.dedup();
        tags.len()
    }
}

/// What an invalidation names, by numbers of names.
#[derive(Clone, Debug)]
pub(super) struct Named {
    kind: usize,
    host: usize,
    target: Vec<u8>,
    tags: Vec<usize>,
    rule: usize,
    scope: usize,
}

impl Named {
    pub(super) fn with<R>(&self, use_it: impl FnOnce(Target<'_>, Scope<'_>) -> R) -> R {
        let host = HOSTS[self.host];
        let tags: Vec<_> = self.tags.iter().map(|&tag| TAGS[tag]).collect();
        let (rule, route) = RULES[self.rule];
        let target = match self.kind {
            0 => Target::Uri { host, target: &self.target },
            1 => Target::Prefix { host, prefix: &self.target },
            2 => Target::Host(host),
            3 => Target::Tags(&tags),
            4 => Target::Rule(rule),
            5 => Target::Route(route),
            6 => Target::Matching { host, prefix: &self.target, matches: Condition(&is_even) },
            _ => Target::Everything,
        };
        use_it(target, SCOPES[self.scope])
    }
}

fn is_even(target: &[u8]) -> bool {
    target.len() % 2 == 0
}

/// Bytes that are prefixes of each other more often than not.
fn target() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(b"//ab\x00\x01\x80\xff".to_vec()), 0..6)
}

fn item() -> impl Strategy<Value = Item> {
    let tags = prop::collection::vec(0..TAGS.len(), 0..4);
    let parts = (0..RULES.len(), 0..HOSTS.len(), target(), tags, 0_u64..50);
    parts.prop_map(|(rule, host, target, tags, started)| Item { rule, host, target, tags, started })
}

pub(super) fn named() -> impl Strategy<Value = Named> {
    let tags = prop::collection::vec(0..TAGS.len(), 0..4);
    let scope = 0..SCOPES.len();
    let parts = (0_usize..8, 0..HOSTS.len(), target(), tags, 0..RULES.len(), scope);
    parts.prop_map(|(kind, host, target, tags, rule, scope)| Named {
        kind,
        host,
        target,
        tags,
        rule,
        scope,
    })
}

#[derive(Clone, Debug)]
enum Step {
    Insert(usize, Item),
    Remove(usize),
    Invalidate(Named, Mode, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let mode = prop_oneof![Just(Mode::Soft), Just(Mode::Hard)];
    prop_oneof![
        5 => (0_usize..200, item()).prop_map(|(handle, item)| Step::Insert(handle, item)),
        2 => (0_usize..200).prop_map(Step::Remove),
        2 => (named(), mode, 0_u64..50).prop_map(|(named, mode, at)| Step::Invalidate(named, mode, at)),
    ]
}

/// A list of everything.
#[derive(Default)]
struct Model {
    objects: Vec<(usize, Item)>,
    invalidations: Vec<(Named, Mode, u64)>,
}

impl Model {
    fn take(&mut self, step: &Step, index: &Index) {
        match step {
            Step::Insert(handle, item) => {
                self.objects.retain(|(other, _)| other != handle);
                self.objects.push((*handle, item.clone()));
                self.check_verdict(item, item.insert(index, *handle));
            }
            Step::Remove(handle) => {
                let before = self.objects.len();
                self.objects.retain(|(other, _)| other != handle);
                assert_eq!(index.remove(*handle), self.objects.len() < before);
            }
            Step::Invalidate(named, mode, at) => {
                named.with(|target, scope| self.invalidate(index, target, scope, *mode, *at));
                self.invalidations.push((named.clone(), *mode, *at));
            }
        }
        let tags = self.objects.iter().map(|(_, item)| item.distinct_tags()).sum();
        assert_eq!((index.usage().objects, index.usage().tags), (self.objects.len(), tags));
    }

    fn invalidate(&self, index: &Index, target: Target<'_>, scope: Scope<'_>, mode: Mode, at: u64) {
        let what = Invalidation { target, scope, mode, at: Moment::from_nanos(at) };
        let mut found = Vec::new();
        let mut visit = |handle: usize| {
            found.push(handle);
            true
        };
        let count = index.invalidate(&what, &mut visit);
        assert_eq!(count, found.len() as u64);
        found.sort_unstable();
        let named = self.objects.iter().filter(|(_, item)| item.is_named(&target, &scope));
        let mut expected: Vec<_> = named.map(|(handle, _)| *handle).collect();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }

    /// Never weaker than the invalidations that cover the object; nothing if all are earlier.
    fn check_verdict(&self, item: &Item, verdict: Option<Mode>) {
        let since = self.invalidations.iter().filter(|(_, _, at)| item.started <= *at.max(&1));
        let covers = |(named, _, _): &&(Named, Mode, u64)| {
            named.with(|target, scope| item.is_named(&target, &scope))
        };
        let strongest = since.clone().filter(covers).map(|(_, mode, _)| *mode).max();
        assert!(verdict >= strongest, "{verdict:?} < {strongest:?}");
        let possible = since.map(|(_, mode, _)| *mode).max();
        assert!(verdict <= possible, "{verdict:?} > {possible:?}");
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn index_visits_what_a_list_of_all_objects_contains(
        steps in prop::collection::vec(step(), 1..120)
    ) {
        let index = Index::new(ROOM);
        let mut model = Model::default();
        let empty = index.usage();
        for step in &steps {
            model.take(step, &index);
        }
        for (handle, _) in model.objects.drain(..) {
            prop_assert!(index.remove(handle));
        }
        let usage = index.usage();
        prop_assert_eq!((usage.objects, usage.tags), (0, 0));
        // One chunk of each kind of cell stays.
        prop_assert!(usage.bytes - empty.bytes < 16 * 40_000, "{:?}", usage);
    }
}
