//! Turns for groups.

use std::sync::Arc;

use ghost_sync::Turns;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::with_preemptions;

fn run(turns: &Turns, inside: &AtomicUsize, group: &str) {
    let Some(mut place) = turns.wait(group) else { return };
    if place.take_turn() {
        assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "two turns at once");
        inside.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn turns_never_exceed_their_number_and_all_come_back() {
    with_preemptions(3, || {
        let shared = Arc::new((Turns::new(4, 1, 1), AtomicUsize::new(0)));
        let spawn = |group: &'static str| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || run(&shared.0, &shared.1, group))
        };
        let others = [spawn("a"), spawn("b")];
        run(&shared.0, &shared.1, "a");
        others.map(|other| other.join().unwrap());
        assert!(shared.0.wait("c").is_some_and(|mut place| place.take_turn()));
    });
}
