//! Permits for all, for groups and for owners.

use std::sync::Arc;

use ghost_sync::{Holders, Permit};
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::with_preemptions;

/// Who holds a permit, counted apart from the permits.
#[derive(Default)]
struct Shares {
    all: Holders,
    group: Holders,
    own: [Holders; 2],
    inside: AtomicUsize,
}

/// Which of the counts of all shares.
#[derive(Clone, Copy)]
enum Which {
    All,
    Group,
    Own(usize),
}

/// One of them.
struct One(Arc<Shares>, Which);

impl std::borrow::Borrow<Holders> for One {
    fn borrow(&self) -> &Holders {
        match self.1 {
            Which::All => &self.0.all,
            Which::Group => &self.0.group,
            Which::Own(owner) => &self.0.own[owner],
        }
    }
}

fn enter(shares: &Arc<Shares>, owner: usize, most: usize) -> bool {
    let one = |which| One(Arc::clone(shares), which);
    let (all, group, own) = (one(Which::All), one(Which::Group), one(Which::Own(owner)));
    let Some(_permit) = Permit::within(most, all, group, own) else { return false };
    assert!(shares.inside.fetch_add(1, Ordering::Relaxed) < most, "more permits than allowed");
    shares.inside.fetch_sub(1, Ordering::Relaxed);
    true
}

/// One thread for each owner, this one included; returns how many got a permit.
fn run(shares: &Arc<Shares>, owners: &[usize], most: usize) -> usize {
    let spawn = |&owner: &usize| {
        let shares = Arc::clone(shares);
        thread::spawn(move || enter(&shares, owner, most))
    };
    let others: Vec<_> = owners[1..].iter().map(spawn).collect();
    let mine = enter(shares, owners[0], most);
    let theirs = others.into_iter().map(|other| other.join().unwrap());
    let got = theirs.chain([mine]).filter(|&got| got).count();
    assert_eq!((shares.all.count(), shares.group.count()), (0, 0));
    assert_eq!((shares.own[0].count(), shares.own[1].count()), (0, 0));
    assert!(enter(shares, 1, most), "a permit is free again");
    got
}

#[test]
fn permits_never_exceed_their_number_and_all_come_back() {
    for owner in [0, 1] {
        loom::model(move || {
            run(&Arc::default(), &[0, owner], 1);
        });
    }
}

/// Each thread has six counts to change: all interleavings of three take hours.
#[test]
fn permits_for_three_threads_never_exceed_their_number_and_all_come_back() {
    for (owners, most) in [([0, 0, 0], 1), ([0, 0, 1], 1), ([0, 0, 1], 2)] {
        with_preemptions(3, move || {
            run(&Arc::default(), &owners, most);
        });
    }
}
