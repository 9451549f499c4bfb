//! What is served, and the state that it is made from.

use std::sync::Arc;

use ghost_sync::Served;
use loom::thread;

use super::with_preemptions;

type Numbers = Served<u64, u64>;

/// As a VCL applies a configuration: an older one changes nothing.
fn apply(served: &Numbers, generation: u64) {
    served.change(|applied, serve| {
        *applied = generation.max(*applied);
        let before = serve(*applied);
        assert!(before.is_none_or(|before| *before <= *applied), "it goes back");
    });
}

fn started() -> Arc<Numbers> {
    let served = Arc::new(Numbers::nothing());
    served.start(1);
    served
}

#[test]
fn what_is_served_never_goes_back() {
    with_preemptions(3, || {
        let served = started();
        let appliers = [2, 3].map(|generation| {
            let served = Arc::clone(&served);
            thread::spawn(move || apply(&served, generation))
        });
        let seen = served.current().as_deref().copied();
        assert!(served.current().as_deref().copied() >= seen);
        for applier in appliers {
            applier.join().unwrap();
        }
        assert_eq!(served.current().as_deref(), Some(&3));
    });
}

#[test]
fn nothing_is_served_once_it_has_stopped() {
    loom::model(|| {
        let served = started();
        let applier = {
            let served = Arc::clone(&served);
            thread::spawn(move || apply(&served, 2))
        };
        served.stop();
        applier.join().unwrap();
        assert!(served.current().is_none(), "a change came after the stop");
        assert!(served.change(|_, _| ()).is_none());
    });
}
