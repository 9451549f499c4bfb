//! A gate to something that another thread takes away.

use std::ptr::NonNull;
use std::sync::Arc;

use ghost_sync::Gate;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

/// Something that one thread takes away.
struct Behind {
    gate: Gate<u8>,
    gone: AtomicBool,
}

impl Behind {
    fn open() -> Arc<Self> {
        let behind = Self { gate: Gate::closed(), gone: AtomicBool::new(false) };
        behind.gate.open(NonNull::dangling().as_ptr());
        Arc::new(behind)
    }

    fn visit(&self) {
        if let Some(_visit) = self.gate.visit() {
            assert!(!self.gone.load(Ordering::Relaxed), "a visitor is inside a closed gate");
        }
    }

    fn take_away(&self) {
        self.gate.close();
        self.gone.store(true, Ordering::Relaxed);
    }
}

#[test]
fn no_visitor_is_inside_once_a_gate_is_closed() {
    loom::model(|| {
        let behind = Behind::open();
        let visitors = [(); 2].map(|()| {
            let behind = Arc::clone(&behind);
            thread::spawn(move || behind.visit())
        });
        behind.take_away();
        for visitor in visitors {
            visitor.join().unwrap();
        }
        assert!(behind.gate.visit().is_none());
    });
}

#[test]
fn a_gate_that_opens_again_lets_visitors_in() {
    loom::model(|| {
        let behind = Behind::open();
        let visitor = {
            let behind = Arc::clone(&behind);
            thread::spawn(move || behind.visit())
        };
        behind.gate.close();
        behind.gate.open(NonNull::dangling().as_ptr());
        assert!(behind.gate.visit().is_some());
        visitor.join().unwrap();
    });
}
