//! Values that are due, or taken back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ghost_sync::Alarms;
use loom::thread;

#[test]
fn value_is_due_or_taken_back_but_never_both_or_neither() {
    loom::model(|| {
        let alarms = Arc::new(Alarms::default());
        let now = Instant::now();
        let (alarm, _) = alarms.set(now, 7);
        let ringing = {
            let alarms = Arc::clone(&alarms);
            thread::spawn(move || alarms.due(now).into_iter().flatten().count())
        };
        let taken_back = alarms.cancel(alarm).is_some();
        assert_eq!(ringing.join().unwrap() + usize::from(taken_back), 1);
    });
}

#[test]
fn thread_that_sleeps_is_woken_for_a_value_that_it_did_not_see() {
    loom::model(|| {
        let alarms = Arc::new(Alarms::default());
        let now = Instant::now();
        alarms.cancel(alarms.set(now + Duration::from_secs(1), 6).0);
        let setting = {
            let alarms = Arc::clone(&alarms);
            thread::spawn(move || alarms.set(now, 7).1)
        };
        let sleeps = alarms.due(now).is_none();
        assert_eq!(setting.join().unwrap(), sleeps);
    });
}
