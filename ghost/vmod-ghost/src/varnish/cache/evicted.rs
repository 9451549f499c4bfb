//! How long objects that varnishd evicts had not been used.
//!
//! varnishd publishes no event for an eviction alone: an object also leaves before its time when
//! it is purged, banned or replaced. Only of an object that it evicts, varnishd gives the memory
//! back at once, before it removes the object: ghost looks on where it does so.

use super::super::fetch::now;
use super::super::sys;
use crate::config::Histogram;

/// Upper bounds of the times, in milliseconds: from a second to a week.
const TIMES: [u32; 8] =
    [1_000, 10_000, 60_000, 600_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000];

/// Of all stores of this varnishd.
static UNUSED: Histogram<{ TIMES.len() }> = Histogram::new(TIMES);

/// How long evicted objects had not been used.
pub fn unused_times() -> &'static Histogram<{ TIMES.len() }> {
    &UNUSED
}

/// Count an object whose memory varnishd is about to give back, if it evicts it. Nothing in it
/// can panic.
///
/// # Safety
/// The caller refers to the object.
pub(super) unsafe fn look(object: *const sys::objcore) {
    const ALONE: u32 = sys::OC_F_PRIVATE | sys::OC_F_HFM | sys::OC_F_HFP;
    // SAFETY: as promised by the caller. varnishd changes the time of an object's last use under
    // a lock, and not any more once the object is dying.
    let (flags, used) = unsafe { (u32::from((*object).flags), (*object).last_lru) };
    // The responses of single requests give their memory back too, as soon as these are over.
    if flags & sys::OC_F_DYING != 0 && flags & ALONE == 0 && !used.is_nan() {
        UNUSED.count(now() - used);
    }
}
