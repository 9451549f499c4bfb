//! Sets of parameters that policies ignore: what an object of them is found by, and for how long
//! they are remembered.

use ghost_core::cache::index::{indexed, target_of, Entry, HeldShape, Index, Refused, Scope};
use ghost_core::cache::key::QueryPolicy;

use super::{entry, ROOM};
use crate::cache::support::policy;

const MOST: usize = 8192;

fn excluding(glob: &str) -> QueryPolicy {
    let exclude = format!(r#""cacheKey": {{"queryParameters": {{"exclude": ["{glob}"]}}}}"#);
    policy(&format!(r#"{{"defaultTTL": 1, {exclude}}}"#)).key.query
}

fn hold(index: &Index, route: &str, host: &str, query: &QueryPolicy) -> HeldShape {
    index.hold_shape(route, host.as_bytes(), query).unwrap().unwrap()
}

fn insert(index: &Index, handle: usize, host: &str, shape: u64) -> Result<(), Refused> {
    let target = String::from_utf8(indexed(b"/page".to_vec(), shape)).unwrap();
    index.insert(handle, &entry(host, &target, &[])).map(|_| ())
}

fn forms(index: &Index, host: &str, scope: Scope<'_>) -> Vec<Vec<u8>> {
    index.forms(host.as_bytes(), b"/page?utm_a=1&b=2", &scope)
}

#[test]
fn shape_stays_as_long_as_a_fetch_or_an_object_has_it() {
    let index = Index::new(ROOM);
    let fetch = hold(&index, "ns/shop", "a.example", &excluding("utm_*"));
    let number = fetch.number();
    let own = indexed(b"/page?b=2".to_vec(), number);
    let plain = b"/page?b=2&utm_a=1".to_vec();
    assert_eq!(forms(&index, "a.example", Scope::All), [plain.clone(), own.clone()]);
    assert_eq!(target_of(&own), b"/page?b=2");
    insert(&index, 1, "a.example", number).unwrap();
    insert(&index, 2, "a.example", number).unwrap();
    drop(fetch);
    assert!(index.remove(1));
    assert_eq!(forms(&index, "a.example", Scope::All), [plain.clone(), own]);
    assert_eq!(forms(&index, "b.example", Scope::All), [&plain[..]], "it has nothing there");
    assert_eq!(index.usage().shapes, 1);
    assert!(index.remove(2) && !index.remove(2));
    assert_eq!(forms(&index, "a.example", Scope::All), [plain]);
    assert_eq!(index.usage().shapes, 0);
}

#[test]
fn shapes_without_objects_are_no_reason_to_store_nothing() {
    let index = Index::new(ROOM);
    for n in 0..MOST + 1_000 {
        let fetch = hold(&index, "ns/shop", "a.example", &excluding(&format!("p{n}")));
        insert(&index, 1, "a.example", fetch.number()).unwrap();
        index.remove(1);
    }
    assert_eq!(index.usage().shapes, 0);
    assert_eq!(forms(&index, "a.example", Scope::All).len(), 1, "what a purge has to look for");
}

#[test]
fn namespace_has_so_many_shapes_and_others_have_their_own() {
    let index = Index::new(ROOM);
    let hold_number =
        |n: usize| index.hold_shape("ns/shop", b"a.example", &excluding(&format!("p{n}")));
    let mut held: Vec<_> = (0..MOST).map(|n| hold_number(n).unwrap()).collect();
    assert_eq!(hold_number(MOST).err(), Some(Refused::Full));
    assert!(hold_number(7).is_ok(), "it is known");
    let other = hold(&index, "other/r", "a.example", &excluding("p1"));
    assert_eq!(forms(&index, "a.example", Scope::Namespace("other")).len(), 2);
    assert_eq!(forms(&index, "a.example", Scope::Routes(&["other/x", "third/r"])).len(), 2);
    assert_eq!(forms(&index, "a.example", Scope::All).len(), 2 + MOST);
    drop(other);
    held.pop();
    assert!(hold_number(MOST).is_ok());
}

#[test]
fn refused_object_and_one_whose_handle_is_used_again_do_not_hold_a_shape() {
    let index = Index::new(4 << 20);
    let fetch = hold(&index, "ns/shop", "a.example", &excluding("a"));
    let again = hold(&index, "ns/shop", "a.example", &excluding("b"));
    insert(&index, 1, "a.example", fetch.number()).unwrap();
    insert(&index, 1, "a.example", again.number()).unwrap();
    drop(fetch);
    assert_eq!(index.usage().shapes, 1);
    let long = "x".repeat(64_000);
    let refused = (2..100).filter(|&n| {
        let target = indexed(format!("/{n}{long}").into_bytes(), again.number());
        index.insert(n, &Entry { target: &target, ..entry("a.example", "", &[]) }).is_err()
    });
    assert!(refused.count() > 10);
    drop(again);
    assert!((1..100).filter(|&n| index.remove(n)).count() > 10);
    assert_eq!(index.usage().shapes, 0);
}

/// User VCL has rolled the fetch back: what it ignores is not known any more.
#[test]
fn object_of_a_shape_that_is_gone_is_refused() {
    let index = Index::new(ROOM);
    let gone = hold(&index, "ns/shop", "a.example", &excluding("a")).number();
    let next = hold(&index, "ns/shop", "a.example", &excluding("b"));
    assert_ne!(next.number(), gone);
    assert_eq!(insert(&index, 1, "a.example", gone), Err(Refused::Full));
    assert_eq!(index.usage().objects, 0);
}

#[test]
fn shape_of_many_hosts_counts_for_all_of_them_until_they_are_gone() {
    let index = Index::new(ROOM);
    let fetch = hold(&index, "ns/shop", "a.example", &excluding("utm_*"));
    let hosts: Vec<_> = (0..3_000).map(|n| format!("h{n}.example")).collect();
    for (n, host) in hosts.iter().enumerate() {
        insert(&index, n, host, fetch.number()).unwrap();
    }
    for host in &hosts {
        assert_eq!(forms(&index, host, Scope::All).len(), 2, "{host}");
    }
    assert_eq!(forms(&index, "new.example", Scope::All).len(), 2);
    (10..3_000).for_each(|n| assert!(index.remove(n)));
    assert_eq!(forms(&index, "h9.example", Scope::All).len(), 2);
    assert_eq!(forms(&index, "new.example", Scope::All).len(), 1);
}

#[test]
fn policy_that_ignores_nothing_has_no_shape() {
    let index = Index::new(ROOM);
    assert!(index.hold_shape("ns/shop", b"a.example", &QueryPolicy::All).unwrap().is_none());
    assert_eq!(indexed(b"/page".to_vec(), 0), b"/page");
}
