//! Invalidations that the data plane asks for: how much they may be.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ghost_core::cache::index::{Condition, Index, Invalidation, Mode, Moment, Scope, Target};
use ghost_core::cache::purge::{Deadline, Done, Named, Purge, MOST_TARGETS};
use ghost_core::target::PathRules;

use super::index::{entry, ROOM};

fn read(json: &str) -> Purge {
    Purge::read(json.as_bytes(), &PathRules::default()).unwrap()
}

fn targets(count: usize) -> String {
    let each = vec![r#"{"host": "a.example"}"#; count].join(",");
    format!(r#"{{"targets": [{each}]}}"#)
}

#[test]
fn more_targets_than_the_limit_are_rejected() {
    assert_eq!(read(&targets(MOST_TARGETS)).targets.len(), MOST_TARGETS);
    let rejected = Purge::read(targets(MOST_TARGETS + 1).as_bytes(), &PathRules::default());
    assert_eq!(
        rejected.unwrap_err().to_string(),
        "targets: has 10001 targets, and 10000 is the limit; send several invalidations, or name \
         many tags in one target"
    );
    let tags = vec![r#""tag""#; 3 * MOST_TARGETS].join(",");
    let purge = read(&format!(r#"{{"targets": [{{"tags": [{tags}]}}]}}"#));
    let [Named::Tags(tags)] = &purge.targets[..] else { panic!("{:?}", purge.targets) };
    assert_eq!(tags.len(), 3 * MOST_TARGETS);
}

#[test]
fn no_target_is_begun_after_the_deadline() {
    let calls = AtomicUsize::new(0);
    let count = |_: &Named, _: Scope<'_>, _: &Deadline<'_>| calls.fetch_add(1, Relaxed) as u64;
    let purge = read(&targets(5));
    let done = purge.carry_out(&|| calls.load(Relaxed) == 3, count);
    assert_eq!(done, Done { objects: vec![0, 1, 2], left: 2 });
    assert_eq!(done.unfinished().unwrap(), "3 targets took too long; send the other 2 again");
    assert_eq!(calls.load(Relaxed), 3);
    assert_eq!(purge.carry_out(&|| false, |_, _, _| 4).unfinished(), None);
}

#[test]
fn pattern_that_meets_the_deadline_matches_nothing_more_and_counts_as_left() {
    let index = Index::new(ROOM);
    let uris: Vec<_> = (0..1_000).map(|number| format!("/{number}")).collect();
    for (handle, uri) in uris.iter().enumerate() {
        index.insert(handle, &entry("a.example", uri, &[])).unwrap();
    }
    let purge = read(
        r#"{"targets": [{"host": "b.example"},
                        {"matching": {"host": "a.example", "pattern": "."}},
                        {"everything": true}]}"#,
    );
    let (asked, visited) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let is_over = || asked.fetch_add(1, Relaxed) > 300;
    let done = purge.carry_out(&is_over, |named, scope, deadline| {
        let reach = |target| {
            let what = Invalidation { target, scope, mode: Mode::Soft, at: Moment::from_nanos(20) };
            index.invalidate(&what, &mut |_| {
                visited.fetch_add(1, Relaxed);
                true
            })
        };
        match named {
            Named::Host(host) => reach(Target::Host(host)),
            Named::Matching { host, pattern } => {
                let matches = |target: &[u8]| deadline.matches(pattern, target);
                reach(Target::Matching { host, prefix: b"", matches: Condition(&matches) })
            }
            other => panic!("{other:?} is not begun"),
        }
    });
    assert_eq!(done, Done { objects: vec![0], left: 2 });
    assert!((1..=300).contains(&visited.load(Relaxed)), "{visited:?}");
}

#[test]
fn restriction_to_namespaces_and_routes_is_a_union_and_an_empty_one_is_nothing() {
    let scopes = |restriction: &str| {
        let purge = read(&format!(r#"{{"targets": [{{"everything": true}}]{restriction}}}"#));
        let mut found = String::new();
        purge.carry_out(&|| false, |_, scope, _| {
            found = format!("{scope:?}");
            0
        });
        found
    };
    assert_eq!(scopes(""), "All");
    assert_eq!(scopes(r#", "routes": []"#), "Owners { namespaces: [], routes: [] }");
    assert_eq!(scopes(r#", "namespaces": []"#), "Owners { namespaces: [], routes: [] }");
    assert_eq!(
        scopes(r#", "namespaces": ["shop"], "routes": ["tea/pots"]"#),
        r#"Owners { namespaces: ["shop"], routes: ["tea/pots"] }"#
    );
}
