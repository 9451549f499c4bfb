//! The structures with real threads, for Miri and for `ThreadSanitizer`.
#![cfg(not(loom))]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ghost_sync::{
    Alarms, Expected, Gate, Generation, Holders, Notes, Numbering, OncePerSecond, PerMinute,
    Permit, Published, Served, Turns, Waiting,
};

const ROUNDS: usize = if cfg!(miri) { 20 } else { 2_000 };

#[test]
fn no_visitor_is_inside_once_a_gate_is_closed() {
    for _ in 0..ROUNDS / 20 {
        let (gate, gone) = (Gate::<u8>::closed(), AtomicBool::new(false));
        gate.open(NonNull::dangling().as_ptr());
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| while gate.visit().is_some_and(|_| !gone.load(Ordering::SeqCst)) {});
            }
            gate.close();
            gone.store(true, Ordering::SeqCst);
        });
        assert!(gate.visit().is_none());
    }
}

#[test]
fn a_gate_knows_where_it_leads() {
    let (mut here, mut there) = (1_u8, 2_u8);
    let gate = Gate::closed();
    assert!(!gate.leads_to(&raw const here));
    gate.open(&raw mut here);
    assert!(gate.leads_to(&raw const here) && !gate.leads_to(&raw const there));
    assert_eq!(gate.visit().map(|visit| visit.place()), Some(&raw mut here));
    gate.open(&raw mut there);
    assert!(gate.leads_to(&raw const there));
    gate.close();
    assert!(!gate.leads_to(std::ptr::null()) && gate.visit().is_none());
}

#[test]
fn permits_never_exceed_their_number_and_all_come_back() {
    const MOST: usize = 3;
    let (all, group, inside) = (Holders::none(), Holders::none(), AtomicUsize::new(0));
    let own = [Arc::<Holders>::default(), Arc::default()];
    thread::scope(|scope| {
        for owner in own.iter().cycle().take(6) {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let Some(_permit) = Permit::within(MOST, &all, &group, Arc::clone(owner))
                    else {
                        continue;
                    };
                    assert!(inside.fetch_add(1, Ordering::SeqCst) < MOST);
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!((all.count(), group.count()), (0, 0));
    assert_eq!((own[0].count(), own[1].count()), (0, 0));
}

/// Take as many as there are for an owner of a group.
fn take_all<'h>(
    most: usize,
    all: &'h Holders,
    group: &'h Holders,
    own: &'h Holders,
) -> Vec<Permit<&'h Holders, &'h Holders, &'h Holders>> {
    std::iter::from_fn(|| Permit::within(most, all, group, own)).collect()
}

#[test]
fn an_owner_leaves_permits_to_the_others_of_its_group() {
    let (all, group) = (Holders::none(), Holders::none());
    let (one, other) = (Holders::none(), Holders::none());
    let mut held = take_all(20, &all, &group, &one);
    assert_eq!(held.len(), 7);
    held.extend(take_all(20, &all, &group, &other));
    assert!(other.count() > 1);
    drop(held);
    assert_eq!((all.count(), group.count(), one.count(), other.count()), (0, 0, 0, 0));
}

#[test]
fn a_group_of_many_owners_leaves_half_of_all_permits() {
    let (all, group) = (Holders::none(), Holders::none());
    let own: Vec<Holders> = (0..20).map(|_| Holders::none()).collect();
    let held: Vec<_> = own.iter().flat_map(|own| take_all(20, &all, &group, own)).collect();
    assert_eq!(held.len(), 10);
    let (another, its_owner) = (Holders::none(), Holders::none());
    assert!(take_all(20, &all, &another, &its_owner).len() > 2);
}

struct Numbered(u64);

impl Generation for Numbered {
    fn generation(&self) -> u64 {
        self.0
    }
}

#[test]
fn a_reader_that_sees_a_generation_finds_it_or_a_later_one() {
    let published = Published::new(Arc::new(Numbered(0)));
    let last = u64::try_from(ROUNDS).unwrap_or(u64::MAX);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=last {
                let made = published.replace(|_| Ok::<_, ()>(Some(Arc::new(Numbered(number)))));
                assert_eq!(made.map(|new| new.0), Ok(number));
            }
        });
        while published.generation() < last {
            let seen = published.generation();
            assert!(published.current().0 >= seen);
        }
    });
}

#[test]
fn what_fails_or_makes_nothing_new_changes_nothing() {
    let published = Published::new(Arc::new(Numbered(7)));
    assert_eq!(published.replace(|_| Err("no")).map(|now| now.0), Err("no"));
    assert_eq!(published.replace(|_| Ok::<_, ()>(None)).map(|now| now.0), Ok(7));
    assert_eq!((published.generation(), published.current().0), (7, 7));
}

#[test]
fn no_occurrence_in_a_minute_is_lost_while_threads_are_late() {
    let (budget, threads) = (PerMinute::new(), [7, 7, 6]);
    budget.count(7);
    thread::scope(|scope| {
        let budget = &budget;
        for minute in threads {
            scope.spawn(move || (0..ROUNDS).for_each(|_| budget.count(minute)));
        }
    });
    let all = u32::try_from(1 + threads.len() * ROUNDS).unwrap();
    assert!(!budget.is_below(all, 7) && budget.is_below(all + 1, 7));
}

#[test]
fn a_clock_that_is_set_back_begins_a_new_minute_and_second() {
    let (budget, lines) = (PerMinute::new(), OncePerSecond::new());
    budget.count(7);
    budget.count(4);
    assert!(budget.is_below(2, 4) && !budget.is_below(1, 4) && budget.is_below(1, 7));
    assert!(lines.is_due(70) && !lines.is_due(69) && lines.is_due(60) && !lines.is_due(60));
}

#[test]
fn one_thread_is_told_in_each_second() {
    let (lines, told) = (OncePerSecond::new(), AtomicUsize::new(0));
    for second in 1..=20 {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| told.fetch_add(lines.is_due(second).into(), Ordering::SeqCst));
            }
        });
    }
    assert_eq!(told.into_inner(), 20);
}

#[test]
fn full_notes_forget_the_oldest() {
    let notes = Notes::<2>::new();
    (1..=3).for_each(|number| notes.leave(number));
    assert_eq!((notes.take(1), notes.take(2), notes.take(3)), (false, true, true));
    assert!(!notes.take(3) && notes.count() == 0);
}

#[test]
fn what_is_left_reaches_the_client_that_expects_it() {
    static WAITING: Waiting<usize> = Waiting::new();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    let client = Expected::new(&WAITING);
                    let number = client.number();
                    let fetch = || WAITING.claim(number).map(|handover| handover.leave(round));
                    assert!(fetch().is_some());
                    assert_eq!((client.take(), client.take()), (Some(round), None));
                    let late = WAITING.claim(number);
                    drop(client);
                    assert!(late.is_some() && WAITING.claim(number).is_none());
                }
            });
        }
    });
    assert_eq!(WAITING.count(), 0);
}

#[test]
fn each_value_is_due_or_taken_back_once() {
    let (alarms, due, taken_back) = (Alarms::default(), AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for number in 0..ROUNDS {
                    let (alarm, _) = alarms.set(Instant::now(), number);
                    let taken = alarms.cancel(alarm).is_some();
                    taken_back.fetch_add(taken.into(), Ordering::Relaxed);
                }
            });
        }
        for _ in 0..ROUNDS {
            let taken = alarms.due(Instant::now()).map_or(0, |values| values.len());
            due.fetch_add(taken, Ordering::Relaxed);
        }
    });
    assert!(alarms.due(Instant::now()).is_none());
    assert_eq!(due.into_inner() + taken_back.into_inner(), 2 * ROUNDS);
}

#[test]
fn values_are_due_in_their_order_and_not_before_their_moment() {
    let (alarms, now) = (Alarms::default(), Instant::now());
    let (_, wakes) = alarms.set(now + Duration::from_secs(1), 2);
    assert!(wakes && !alarms.set(now, 1).1);
    assert_eq!(alarms.due(now), Some(vec![1]));
    assert_eq!(alarms.due(now), Some(vec![]));
    assert_eq!(alarms.due(now + Duration::from_secs(1)), Some(vec![2]));
    assert_eq!(alarms.due(now), None);
    assert!(alarms.set(now, 3).1);
}

#[test]
fn keys_have_numbers_in_the_order_of_their_first_use() {
    let numbers = Numbering::<3>::new();
    assert_eq!([70, 50, 70, 60, 50].map(|key| numbers.number(key)), [0, 1, 0, 2, 1]);
    assert_eq!([40, 60].map(|key| numbers.number(key)), [2, 2]);
}

#[test]
fn what_is_served_never_goes_back_and_ends_with_a_stop() {
    let served = Served::<usize, usize>::nothing();
    assert!(served.change(|_, _| ()).is_none() && served.current().is_none());
    served.start(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    served.change(|next, serve| {
                        *next += 1;
                        assert!(serve(*next).is_none_or(|before| *before < *next));
                    });
                }
            });
        }
        let mut seen = 0;
        while seen < 2 * ROUNDS {
            let now = served.current().as_deref().copied().unwrap_or(0);
            assert!(now >= seen);
            seen = now;
        }
    });
    served.stop();
    assert!(served.current().is_none());
}

#[test]
fn turns_and_places_never_exceed_their_number_and_all_come_back() {
    let (turns, inside) = (Turns::new(8, 2, 1), AtomicUsize::new(0));
    thread::scope(|scope| {
        for group in ["a", "b", "c"].iter().cycle().take(9) {
            let (turns, inside) = (&turns, &inside);
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let Some(mut place) = turns.wait(group) else { continue };
                    if place.take_turn() {
                        assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    let mut places: Vec<_> = std::iter::from_fn(|| turns.wait("d")).collect();
    assert_eq!(places.len(), 4, "all places are free again, and a group has half of them");
    assert!(places[0].take_turn() && places[0].take_turn());
    assert!(!places[1].take_turn(), "a group has one turn");
    let mut other = turns.wait("e").unwrap();
    assert!(other.take_turn());
    assert!(!turns.wait("f").unwrap().take_turn(), "there are two in all");
    places.remove(0);
    assert!(places[0].take_turn(), "it is given back");
}

#[test]
fn groups_leave_places_to_each_other() {
    let turns = Turns::new(64, 4, 2);
    let mut held = Vec::new();
    let counts = ["a", "b", "c", "d", "e"].map(|group| {
        let places: Vec<_> = std::iter::from_fn(|| turns.wait(group)).collect();
        let count = places.len();
        held.push(places);
        count
    });
    assert_eq!(counts, [32, 16, 8, 4, 2]);
}
