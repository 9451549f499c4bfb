//! Objects of other variants, which a lookup passes.

use std::ptr;

use super::super::sys;
use super::object::Object;

/// How many of them a key keeps. varnishd compares the variants of a key one by one under its
/// lock, and one client could fill the cache with those of one URL.
const MOST: usize = 256;

/// How many of them one lookup removes. There is more than one to remove only where many fetches
/// of one key went on at the same time.
const MOST_AT_ONCE: usize = 8;

/// What makes an object worth less than another one: what says that there is no response, then
/// what no request has found, then what was not used for the longest time.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct Worth {
    is_response: bool,
    was_found: bool,
    used: f64,
}

#[derive(Clone, Copy)]
struct Candidate {
    worth: Worth,
    object: *mut sys::objcore,
}

/// The objects of other variants that a lookup has passed so far.
pub(super) struct Others {
    passed: usize,
    /// Those that are worth the least, beginning with the least; behind them, null pointers.
    least: [Candidate; MOST_AT_ONCE],
}

impl Others {
    /// None yet.
    pub(super) fn none() -> Self {
        let worth = Worth { is_response: true, was_found: true, used: f64::INFINITY };
        Self { passed: 0, least: [Candidate { worth, object: ptr::null_mut() }; MOST_AT_ONCE] }
    }

    /// The lookup passes one.
    ///
    /// # Safety
    /// The object is valid, and this thread holds the lock of its key.
    pub(super) unsafe fn pass(&mut self, object: *mut sys::objcore) {
        self.passed += 1;
        // SAFETY: as promised by the caller. Another thread may write when it was used, under
        // another lock: it doesn't matter which of both values this one reads.
        let worth = unsafe {
            if !(*object).boc.is_null() {
                return;
            }
            let no_response = sys::OC_F_HFM | sys::OC_F_HFP;
            Worth {
                is_response: u32::from((*object).flags) & no_response == 0,
                was_found: (*object).hits > 0,
                used: (&raw const (*object).last_lru).read_volatile(),
            }
        };
        let mut candidate = Candidate { worth, object };
        for kept in &mut self.least {
            if kept.object.is_null() || candidate.worth < kept.worth {
                std::mem::swap(kept, &mut candidate);
            }
            if candidate.object.is_null() {
                break;
            }
        }
    }

    /// Remove what there is too much of, with room for one more.
    ///
    /// # Safety
    /// As for [`pass`](Self::pass), and the thread has held the lock since; `worker` is its own.
    pub(super) unsafe fn remove_excess(&self, worker: *mut sys::worker) {
        let excess = (self.passed + 1).saturating_sub(MOST);
        for candidate in self.least.iter().take(excess) {
            // SAFETY: as promised by the caller; null, or an object of the key.
            if let Some(object) = unsafe { Object::new(candidate.object, worker) } {
                object.discard();
            }
        }
    }
}
