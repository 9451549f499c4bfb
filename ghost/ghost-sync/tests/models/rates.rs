//! Counts in a minute, findings, lines in a second, notes, and numbers for keys.

use std::sync::Arc;

use ghost_sync::{Findings, Notes, Numbering, OncePerSecond, PerMinute};
use loom::thread;

use super::with_preemptions;

/// Run a step of each thread, this one included.
fn run<S: Sync + Send + 'static, T: Copy + Send + 'static, R: Send + 'static>(
    shared: &Arc<S>,
    steps: [T; 3],
    step: fn(&S, T) -> R,
) -> [R; 3] {
    let [first, second, third] = steps;
    let spawn = |arguments| {
        let shared = Arc::clone(shared);
        thread::spawn(move || step(&shared, arguments))
    };
    let (second, third) = (spawn(second), spawn(third));
    let first = step(shared, first);
    [first, second.join().unwrap(), third.join().unwrap()]
}

#[test]
fn no_occurrence_in_a_minute_is_lost_while_one_thread_is_late() {
    loom::model(|| {
        let budget = Arc::<PerMinute>::default();
        budget.count(6);
        run(&budget, [7, 7, 6], PerMinute::count);
        assert!(!budget.is_below(2, 7), "both count");
        assert!(budget.is_below(4, 7), "those before the minute don't");
        assert!(budget.is_below(1, 8) && budget.is_below(1, 5), "nor do they in another one");
    });
}

#[test]
fn no_finding_is_lost_while_one_thread_is_late() {
    loom::model(|| {
        let findings = Arc::<Findings<1>>::default();
        run(&findings, [7, 7, 6], |findings, minute| findings.add(1, minute));
        assert_eq!([6, 15].map(|minute| findings.count(1, minute)), [3, 3]);
        assert_eq!(findings.count(1, 17), 0);
        findings.add(2, 7);
        assert_eq!([1, 2].map(|name| findings.count(name, 7)), [0, 1]);
    });
}

#[test]
fn one_thread_of_those_in_a_second_is_told() {
    loom::model(|| {
        let lines = Arc::<OncePerSecond>::default();
        let [one, other, next] = run(&lines, [7, 7, 8], OncePerSecond::is_due);
        assert!(!(one && other) && (one || other || next));
        assert!(!lines.is_due(7) && lines.is_due(9) && !lines.is_due(9));
    });
}

/// Leave a note, and look for another one.
fn leave_and_take<const MOST: usize>(notes: &Notes<MOST>, (left, taken): (u64, u64)) -> bool {
    notes.leave(left);
    assert!(notes.count() <= MOST);
    notes.take(taken)
}

#[test]
fn a_note_is_found_once() {
    with_preemptions(3, || {
        let notes = Arc::<Notes<4>>::default();
        notes.leave(1);
        let found = run(&notes, [(2, 1), (3, 1), (4, 1)], leave_and_take);
        assert_eq!(found.into_iter().filter(|&found| found).count(), 1);
        assert_eq!([1, 2, 3, 4].map(|number| notes.take(number)), [false, true, true, true]);
    });
}

#[test]
fn there_are_never_too_many_notes_and_the_last_ones_stay() {
    with_preemptions(3, || {
        let notes = Arc::<Notes<2>>::default();
        notes.leave(1);
        run(&notes, [(2, 0), (3, 0), (4, 0)], leave_and_take);
        assert_eq!([1, 2, 3, 4].map(|number| notes.take(number)), [false, false, true, true]);
    });
}

#[test]
fn a_key_has_one_number_and_two_keys_have_two() {
    loom::model(|| {
        let numbers = Arc::<Numbering<2>>::default();
        let [one, same, other] = run(&numbers, [10, 10, 20], Numbering::number);
        assert_eq!(one, same);
        assert_ne!(one, other);
        assert_eq!(run(&numbers, [10, 20, 30], Numbering::number), [one, other, 1]);
    });
}
