//! What a fetch leaves for its client.

use std::sync::Arc;

use ghost_sync::{Expected, Waiting};
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;

use super::with_preemptions;

/// Counts how many exist.
struct Tunnel(u64, Arc<AtomicUsize>);

impl Tunnel {
    fn new(number: u64, open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Relaxed);
        Self(number, Arc::clone(open))
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Relaxed);
    }
}

type All = Arc<Waiting<Tunnel>>;

fn fetch(waiting: &All, number: u64, open: &Arc<AtomicUsize>) {
    if let Some(handover) = waiting.claim(number) {
        handover.leave(Tunnel::new(number, open));
    }
}

#[test]
fn what_is_left_reaches_its_client_once_or_goes_away() {
    with_preemptions(3, || {
        let (waiting, open) = (All::default(), Arc::<AtomicUsize>::default());
        let clients = [(); 2].map(|()| Expected::new(Arc::clone(&waiting)));
        let fetches = clients.each_ref().map(|client| {
            let (waiting, open, number) =
                (Arc::clone(&waiting), Arc::clone(&open), client.number());
            thread::spawn(move || fetch(&waiting, number, &open))
        });
        for client in clients {
            let got = client.take();
            assert!(got.as_ref().is_none_or(|tunnel| tunnel.0 == client.number()), "another one's");
            assert!(got.is_none() || client.take().is_none(), "once");
        }
        for fetch in fetches {
            fetch.join().unwrap();
        }
        assert_eq!((waiting.count(), open.load(Relaxed)), (0, 0));
    });
}

#[test]
fn client_that_takes_after_its_fetch_gets_what_was_left() {
    loom::model(|| {
        let (waiting, open) = (All::default(), Arc::<AtomicUsize>::default());
        // Another client comes and goes meanwhile.
        let other = Arc::clone(&waiting);
        let going = thread::spawn(move || drop(Expected::new(other)));
        let client = Expected::new(Arc::clone(&waiting));
        fetch(&waiting, client.number(), &open);
        assert!(client.take().is_some());
        going.join().unwrap();
    });
}
