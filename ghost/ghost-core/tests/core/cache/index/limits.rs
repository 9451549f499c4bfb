//! What an index refuses.

use ghost_core::cache::index::{Entry, Index, Refused, Scope, Target, MAX_TARGET};
use ghost_core::cache::tags::MAX_TAGS;

use super::{entry, visited, ROOM};

#[test]
fn object_beyond_a_limit_is_refused_and_leaves_no_trace() {
    let index = Index::new(ROOM);
    let many: Vec<&[u8]> = vec![b"t"; MAX_TAGS + 1];
    let long = "/".repeat(MAX_TARGET + 1);
    index.insert(1, &entry("a.example", "/", &[])).unwrap();
    let refused = index.insert(1, &entry("a.example", "/", &many));
    assert_eq!(refused, Err(Refused::TooManyTags));
    assert_eq!(index.usage().objects, 0, "a former object with the handle is gone");
    assert_eq!(index.insert(1, &entry("a.example", &long, &[])), Err(Refused::TargetTooLong));
    assert_eq!(index.insert(1, &entry("a.example", &long[1..], &many[1..])), Ok(None));
    assert_eq!((index.usage().objects, index.usage().tags), (1, 1));
    assert_eq!(Refused::Full.name(), "index-full");
    assert!(Refused::Full.to_string().contains("limit"));
}

#[test]
fn index_refuses_beyond_its_bytes_and_accepts_again_after_removals() {
    let limit = 4 << 20;
    let index = Index::new(limit);
    let tags: Vec<_> = (0..3_000_u32).map(|n| n.to_string().into_bytes()).collect();
    let mut stored = Vec::new();
    for n in 0..40_000 {
        let target = format!("/objects/{n}/{}", "x".repeat(n % 90));
        let own: Vec<_> = (0..n % 5).map(|k| &tags[(n * 7 + k) % tags.len()][..]).collect();
        match index.insert(n, &entry("a.example", &target, &own)) {
            Ok(_) => stored.push(n),
            Err(refused) => assert_eq!(refused, Refused::Full),
        }
        assert!(n % 100 > 0 || index.usage().bytes <= limit);
    }
    let usage = index.usage();
    // One namespace has its share.
    assert!(usage.bytes <= limit * 9 / 10 && usage.bytes > limit * 6 / 10, "{usage:?}");
    assert!((5_000..20_000).contains(&stored.len()), "{}", stored.len());
    assert_eq!(visited(&index, Target::Everything, Scope::All), stored);
    for handle in &stored {
        assert!(index.remove(*handle));
    }
    // Other objects than before: few with many tags. Memory of one kind serves another.
    let many: Vec<_> = tags.iter().take(1_000).map(Vec::as_slice).collect();
    let accepted = (0..1_000_usize).filter(|&n| {
        let host = format!("h{n}");
        let of = Entry { host: host.as_bytes(), ..entry("", "/", &many) };
        index.insert(n, &of).is_ok()
    });
    assert!(accepted.count() > 20);
    assert!(index.usage().bytes <= limit);
}

#[test]
fn check_tells_what_an_insertion_would_and_changes_nothing() {
    let index = Index::new(4 << 20);
    let many: Vec<&[u8]> = vec![b"t"; MAX_TAGS + 1];
    let tags: Vec<_> = (0..100_u32).map(|n| n.to_string().into_bytes()).collect();
    let own: Vec<_> = tags.iter().map(Vec::as_slice).collect();
    assert_eq!(index.check(1, &entry("a.example", "/", &many)), Err(Refused::TooManyTags));
    let mut refused = 0;
    for n in 0..3_000 {
        let target = format!("/{n}/{}", "x".repeat(900));
        let new = entry("a.example", &target, &own);
        let before = index.usage();
        let verdict = index.check(n, &new);
        assert_eq!(index.usage(), before);
        assert_eq!(index.insert(n, &new).err(), verdict.err());
        refused += usize::from(verdict.is_err());
    }
    assert!((500..2_900).contains(&refused), "{refused}");
}

#[test]
fn tiny_index_refuses_everything() {
    let index = Index::new(0);
    assert_eq!(index.insert(1, &entry("a.example", "/", &[])), Err(Refused::Full));
    assert!(!index.remove(1));
}
