//! Values that are due at a moment, unless their owner takes them back before.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Instant;

use crate::primitives::{Mutex, MutexGuard};

/// Values with moments. One thread takes those that are due, and sleeps while there are none.
#[derive(Debug)]
pub struct Alarms<T>(Mutex<Pending<T>>);

#[derive(Debug)]
struct Pending<T> {
    by_moment: BTreeMap<Alarm, T>,
    set: u64,
    sleeping: bool,
}

/// Where a value is that its owner may take back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alarm {
    moment: Instant,
    number: u64,
}

impl Alarm {
    /// When the value is due.
    #[must_use]
    pub fn moment(self) -> Instant {
        self.moment
    }
}

impl<T> Default for Alarms<T> {
    fn default() -> Self {
        Self(Mutex::new(Pending { by_moment: BTreeMap::new(), set: 0, sleeping: true }))
    }
}

impl<T> Alarms<T> {
    /// Have a value due at a moment. True if the thread sleeps, and has to be woken.
    pub fn set(&self, moment: Instant, value: T) -> (Alarm, bool) {
        let mut pending = self.lock();
        pending.set += 1;
        let alarm = Alarm { moment, number: pending.set };
        pending.by_moment.insert(alarm, value);
        (alarm, std::mem::take(&mut pending.sleeping))
    }

    /// Take a value back; None if it was due.
    pub fn cancel(&self, alarm: Alarm) -> Option<T> {
        self.lock().by_moment.remove(&alarm)
    }

    /// Take the values that are due. None if there is no value at all: the thread may sleep until
    /// it is woken.
    pub fn due(&self, now: Instant) -> Option<Vec<T>> {
        let mut pending = self.lock();
        if pending.by_moment.is_empty() {
            pending.sleeping = true;
            return None;
        }
        let later = pending.by_moment.split_off(&Alarm { moment: now, number: u64::MAX });
        let due = std::mem::replace(&mut pending.by_moment, later);
        Some(due.into_values().collect())
    }

    /// A panic while the lock was held left the map as it was before or after a change.
    fn lock(&self) -> MutexGuard<'_, Pending<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
