//! What a namespace may take of an index, and what it leaves to others.

use ghost_core::cache::index::{Entry, Index, Refused};

use super::entry;

const LIMIT: usize = 16 << 20;

/// Many objects of a namespace, each with so many tags of its own.
struct Tenant {
    route: String,
    rule: String,
    tags: usize,
    /// Handles of different tenants are different.
    first: usize,
}

impl Tenant {
    fn new(number: usize, tags: usize) -> Self {
        let route = format!("tenant-{number}/route");
        Self { rule: format!("{route}/0"), route, tags, first: number << 32 }
    }

    fn insert(&self, index: &Index, n: usize) -> Result<(), Refused> {
        let tags: Vec<_> = (0..self.tags).map(|tag| format!("{n}-{tag}").into_bytes()).collect();
        let tags: Vec<_> = tags.iter().map(Vec::as_slice).collect();
        let target = format!("/{}/objects/{n}", self.route);
        let of = entry("shared.example", &target, &tags);
        let own = Entry { rule: &self.rule, route: &self.route, ..of };
        index.insert(self.first + n, &own).map(|_| ())
    }

    /// Insert objects until many in a row are refused. Out: how many there are.
    fn fill(&self, index: &Index) -> usize {
        let (mut stored, mut refused) = (0, 0);
        for n in 0.. {
            match self.insert(index, n) {
                Ok(()) => (stored, refused) = (stored + 1, 0),
                Err(reason) => {
                    assert_eq!(reason, Refused::Full);
                    refused += 1;
                }
            }
            if refused == 200 {
                break;
            }
        }
        stored
    }

    fn remove(&self, index: &Index) {
        for n in 0..100_000 {
            index.remove(self.first + n);
        }
    }
}

#[test]
fn tenant_with_a_thousand_tags_for_each_object_leaves_room_to_others() {
    let index = Index::new(LIMIT);
    let stored = Tenant::new(0, 1024).fill(&index);
    assert!((100..300).contains(&stored), "{stored} objects of 1,024 tags");
    let ordinary = Tenant::new(1, 3);
    for n in 0..5_000 {
        assert_eq!(ordinary.insert(&index, n), Ok(()), "object {n} of another namespace");
    }
    assert_eq!(Tenant::new(0, 1024).insert(&index, 100_000), Err(Refused::Full));
    assert!(index.usage().bytes <= LIMIT);
}

#[test]
fn tenants_that_want_everything_leave_room_to_one_that_stores_little() {
    let index = Index::new(LIMIT);
    let greedy: Vec<_> = (0..8).map(|number| Tenant::new(number, 20)).collect();
    for _ in 0..3 {
        for tenant in &greedy {
            tenant.fill(&index);
        }
    }
    let modest = Tenant::new(8, 2);
    for n in 0..200 {
        assert_eq!(modest.insert(&index, n), Ok(()), "object {n}");
    }
    assert!(index.usage().bytes <= LIMIT);
}

#[test]
fn share_of_a_namespace_does_not_depend_on_the_order_in_which_objects_go() {
    let index = Index::new(LIMIT);
    let (one, other) = (Tenant::new(0, 10), Tenant::new(1, 10));
    let alone = one.fill(&index);
    let second = other.fill(&index);
    assert!((alone / 8..alone / 2).contains(&second), "{alone} and {second}");
    one.remove(&index);
    let replaced = one.fill(&index);
    assert!((second..alone).contains(&replaced), "{replaced} beside {second}");
    one.remove(&index);
    other.remove(&index);
    assert_eq!(index.usage().objects, 0);
    let again = one.fill(&index);
    assert!(alone.abs_diff(again) < alone / 20, "{alone} before, {again} after");
}
