//! Looks: what an invalidation would visit, of which nothing is recorded.

use ghost_core::cache::index::{Entry, Index, Scope, Target, BATCH};

use super::{entry, ROOM};

const URI: Target<'_> = Target::Uri { host: b"a.example", target: b"/x" };

#[test]
fn look_visits_what_is_in_its_scope_and_counts_what_the_visitor_counts() {
    let index = Index::new(ROOM);
    for handle in 1..=4 {
        index.insert(handle, &entry("a.example", "/x", &[])).unwrap();
    }
    let other = Entry { rule: "ns/other/0", route: "ns/other", ..entry("a.example", "/x", &[]) };
    index.insert(5, &other).unwrap();
    index.insert(6, &entry("a.example", "/y", &[])).unwrap();
    let look = |scope: Scope<'_>| {
        let mut found = Vec::new();
        let mut visit = |handle| {
            found.push(handle);
            handle != 1
        };
        let count = index.look(&URI, &scope, &mut visit, |_| true);
        found.sort_unstable();
        (found, count)
    };
    assert_eq!(look(Scope::All), (vec![1, 2, 3, 4, 5], 4));
    assert_eq!(look(Scope::Routes(&["ns/other"])), (vec![5], 1));
    assert_eq!(look(Scope::Namespace("elsewhere")), (vec![], 0));
}

#[test]
fn what_is_fetched_meanwhile_is_no_less_fresh_for_a_look() {
    let index = Index::new(ROOM);
    index.insert(1, &entry("a.example", "/x", &[])).unwrap();
    assert_eq!(index.look(&URI, &Scope::All, &mut |_| true, |_| true), 1);
    for handle in 1..100 {
        assert_eq!(index.insert(handle, &entry("a.example", "/x", &[])), Ok(None));
    }
}

#[test]
fn look_ends_after_the_batch_in_which_it_has_enough() {
    let index = Index::new(ROOM);
    for handle in 1..10_000 {
        index.insert(handle, &entry("a.example", "/x", &[])).unwrap();
    }
    let mut visits = 0;
    let mut visit = |_| {
        visits += 1;
        true
    };
    let count = index.look(&URI, &Scope::All, &mut visit, |seen| seen < 100);
    assert_eq!(count, visits);
    assert!((100..100 + BATCH as u64).contains(&visits), "{visits}");
    // What it left does not keep others from anything.
    for handle in 1..10_000 {
        assert!(index.remove(handle));
    }
    assert_eq!(index.look(&URI, &Scope::All, &mut |_| true, |_| true), 0);
}
