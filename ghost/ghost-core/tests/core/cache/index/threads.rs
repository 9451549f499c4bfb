//! Many threads at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use ghost_core::cache::index::{Entry, Index, Mode, Scope, Target};

use super::{entry, soft, visited, ROOM};

const WRITERS: usize = 3;
const OWN: usize = 2_000;
const ROUNDS: usize = 10;

/// An object may be visited from before its insertion until its removal has returned.
struct Objects(Vec<AtomicBool>);

fn write(index: &Index, objects: &Objects, writer: usize) {
    for round in 0..ROUNDS {
        for n in 0..OWN {
            let handle = writer * OWN + n;
            let target = format!("/{}/{}", n % 7, n % 100);
            let tags: [&[u8]; 2] = [b"all", if n % 2 == 0 { b"even" } else { b"odd" }];
            objects.0[handle].store(true, SeqCst);
            index.insert(handle, &entry("a.example", &target, &tags)).unwrap();
        }
        // The last round leaves every third.
        for n in (0..OWN).filter(|n| round + 1 < ROUNDS || n % 3 > 0) {
            let handle = writer * OWN + n;
            assert!(index.remove(handle));
            objects.0[handle].store(false, SeqCst);
        }
    }
}

#[test]
fn handle_is_visited_only_between_its_insertion_and_its_removal() {
    let index = Index::new(ROOM);
    let objects = Objects((0..WRITERS * OWN).map(|_| AtomicBool::new(false)).collect());
    let writing = AtomicUsize::new(WRITERS);
    let targets = [
        Target::Tags(&[b"even", b"odd"]),
        Target::Prefix { host: b"a.example", prefix: b"/3" },
        Target::Everything,
    ];
    thread::scope(|scope| {
        let (index, objects, writing) = (&index, &objects, &writing);
        for writer in 0..WRITERS {
            scope.spawn(move || {
                write(index, objects, writer);
                writing.fetch_sub(1, SeqCst);
            });
        }
        for target in targets {
            scope.spawn(move || {
                while writing.load(SeqCst) > 0 {
                    let mut visit = |handle: usize| {
                        assert!(objects.0[handle].load(SeqCst), "{handle} has been removed");
                        true
                    };
                    index.invalidate(&soft(target, Scope::All), &mut visit);
                }
            });
        }
    });
    let left: Vec<_> = (0..WRITERS * OWN).filter(|handle| handle % OWN % 3 == 0).collect();
    assert_eq!(visited(&index, Target::Everything, Scope::All), left);
    assert_eq!(visited(&index, Target::Tags(&[b"all"]), Scope::All), left);
}

/// Whether an object is stored before, during or after an invalidation: it is visited, or
/// `insert` reports it.
#[test]
fn object_that_is_stored_during_an_invalidation_is_visited_or_reported() {
    for round in 0..200_usize {
        let index = Index::new(ROOM);
        let target = match round % 4 {
            0 => Target::Tags(&[b"t"]),
            1 => Target::Uri { host: b"a.example", target: b"/x" },
            2 => Target::Prefix { host: b"a.example", prefix: b"/" },
            _ => Target::Route("ns/shop"),
        };
        let stored = Entry { ..entry("a.example", "/x", &[b"t"]) };
        let mut found = [false; 40];
        let reported = thread::scope(|scope| {
            let insert = || {
                let insert = |handle| index.insert(handle, &stored).unwrap() == Some(Mode::Soft);
                (0..40).map(insert).collect::<Vec<_>>()
            };
            let inserting = scope.spawn(insert);
            let mut visit = |handle: usize| {
                found[handle] = true;
                true
            };
            index.invalidate(&soft(target, Scope::All), &mut visit);
            inserting.join().unwrap()
        });
        for (handle, (found, reported)) in found.iter().zip(reported).enumerate() {
            assert!(*found || reported, "{handle} is served as fresh");
        }
    }
}
