//! A stored object.

use std::ffi::CStr;
use std::iter;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::time::Duration;

use ghost_core::cache::index::Mode;
use ghost_core::cache::Timestamp;

use super::super::fetch::now;
use super::super::sys;

/// The headers with ghost's record of an object and of its request, as varnishd looks headers up:
/// with their length.
const RECORD: &CStr = c"\x0fX-Ghost-Object:";
const REQUESTED: &CStr = c"\x12X-Ghost-Requested:";
const ETAG: &CStr = c"\x05ETag:";
const LAST_MODIFIED: &CStr = c"\x0eLast-Modified:";

/// varnishd ignores an object without a lifetime, also for validating it.
pub(super) const SHORTEST: f32 = 1e-3;
/// Seconds. An object that is made stale is at least so old.
const YOUNG: f64 = 2e-3;

extern "C" {
    // varnishd exports it, and installs no header with it.
    pub(super) fn HSH_Kill(object: *mut sys::objcore);
}

/// A stored object, for as long as the call into ghost lasts.
pub struct Object<'a> {
    raw: NonNull<sys::objcore>,
    worker: *mut sys::worker,
    call: PhantomData<&'a sys::objcore>,
}

/// For how long an object is used, and when its origin made it.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// When its origin made it.
    pub origin: Timestamp,
    /// For how long it is fresh, from then on.
    pub lifetime: Duration,
    /// For how long after that it is used while it is refreshed.
    pub grace: Duration,
    /// For how long after that it is kept.
    pub keep: Duration,
}

impl Times {
    /// When it stops to be fresh.
    pub fn stale_at(&self) -> Timestamp {
        self.origin.plus(self.lifetime)
    }

    /// When it is removed.
    pub fn gone_at(&self) -> Timestamp {
        self.stale_at().plus(self.grace).plus(self.keep)
    }
}

impl<'a> Object<'a> {
    /// None for a null pointer.
    ///
    /// # Safety
    /// `raw` is null or stays valid during `'a`, and `worker` is that of this thread.
    pub(super) unsafe fn new(raw: *mut sys::objcore, worker: *mut sys::worker) -> Option<Self> {
        NonNull::new(raw).map(|raw| Self { raw, worker, call: PhantomData })
    }

    /// Tells it from all objects that exist at the same time.
    pub fn address(&self) -> usize {
        self.raw.as_ptr().expose_provenance()
    }

    /// Whether it is no response, but says that there is none, or belongs to one request.
    pub fn is_marker(&self) -> bool {
        self.has_flag(sys::OC_F_HFM | sys::OC_F_HFP | sys::OC_F_PRIVATE)
    }

    /// Whether other requests find it.
    pub fn is_stored(&self) -> bool {
        !self.is_marker() && self.raw().ttl > 0.0
    }

    /// Its times.
    pub fn times(&self) -> Times {
        let raw = self.raw();
        Times {
            origin: timestamp(raw.t_origin),
            lifetime: duration(raw.ttl),
            grace: duration(raw.grace),
            keep: duration(raw.keep),
        }
    }

    /// Whether it was stale when it was stored, and nothing has made it fresh since.
    pub fn is_stale_at_once(&self) -> bool {
        self.raw().ttl <= SHORTEST
    }

    /// Its status.
    pub fn status(&self) -> u16 {
        // SAFETY: as `new` promises; a response that is stored has a status.
        unsafe { sys::HTTP_GetStatusPack(self.worker, self.raw.as_ptr()) }
    }

    /// How many requests have found it.
    pub fn hits(&self) -> u64 {
        u64::try_from(self.raw().hits).unwrap_or(0)
    }

    /// The bytes of its body as it is stored; None while they arrive.
    pub fn size(&self) -> Option<u64> {
        if !self.raw().boc.is_null() {
            return None;
        }
        // SAFETY: as `new` promises; the attribute is eight bytes in the order of the network.
        unsafe {
            let length =
                sys::ObjGetAttr(self.worker, self.raw.as_ptr(), sys::OA_LEN, ptr::null_mut());
            (!length.is_null())
                .then(|| u64::from_be_bytes(length.cast::<[u8; 8]>().read_unaligned()))
        }
    }

    /// Whether no request finds it any more.
    pub(super) fn is_dying(&self) -> bool {
        self.has_flag(sys::OC_F_DYING | sys::OC_F_FAILED)
    }

    /// Ghost's record of it; None if ghost didn't decide about it.
    pub fn record(&self) -> Option<&'a [u8]> {
        self.header(RECORD)
    }

    /// Ghost's record of the request that it was fetched for.
    pub fn requested(&self) -> Option<&'a [u8]> {
        self.header(REQUESTED)
    }

    /// Every header line.
    pub fn lines(&self) -> impl Iterator<Item = &'a [u8]> + use<'a, '_> {
        let mut line = ptr::null();
        iter::from_fn(move || {
            // SAFETY: as `new` promises; varnishd sets the pointer to a string within the object.
            unsafe {
                let found = sys::HTTP_IterHdrPack(self.worker, self.raw.as_ptr(), &raw mut line);
                (found != 0).then(|| CStr::from_ptr(line).to_bytes())
            }
        })
    }

    /// Its entity tag.
    pub fn etag(&self) -> Option<&'a [u8]> {
        self.header(ETAG)
    }

    /// When it was changed.
    pub fn last_modified(&self) -> Option<&'a [u8]> {
        self.header(LAST_MODIFIED)
    }

    /// A name as varnishd looks headers up: with its length, which counts the colon.
    fn header(&self, name: &CStr) -> Option<&'a [u8]> {
        // SAFETY: as `new` promises; varnishd returns null or a string within the object.
        unsafe {
            let value = sys::HTTP_GetHdrPack(self.worker, self.raw.as_ptr(), name.as_ptr());
            (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes())
        }
    }

    /// Change its times. It can't be kept for longer than it was to be before.
    pub fn rearm(&self, now: Timestamp, lifetime: Duration, grace: Duration, keep: Duration) {
        let (lifetime, grace, keep) =
            (lifetime.as_secs_f64(), grace.as_secs_f64(), keep.as_secs_f64());
        // SAFETY: as `new` promises.
        unsafe { sys::EXP_Rearm(self.raw.as_ptr(), seconds(now), lifetime, grace, keep) };
    }

    /// Never use it again.
    pub fn discard(&self) {
        // varnishd looks for no object without a lifetime, not even to validate it.
        self.rearm(self.times().origin, Duration::ZERO, Duration::ZERO, Duration::ZERO);
    }

    /// Whether varnishd has begun to let lookups find it, and has not told ghost yet, or not to
    /// the end.
    pub fn is_arriving(&self) -> bool {
        u32::from(self.raw().exp_flags) & sys::OC_EF_NEW != 0
    }

    /// Have no further request find it. False if none does anyway.
    pub(super) fn invalidate(&self, mode: Mode) -> bool {
        if self.has_flag(sys::OC_F_DYING) {
            return false;
        }
        match mode {
            // SAFETY: as `new` promises.
            Mode::Hard => unsafe { HSH_Kill(self.raw.as_ptr()) },
            Mode::Soft => self.age(),
        }
        true
    }

    /// Make it stale. For as long as it was to be used stale, it still is, from now on.
    fn age(&self) {
        let object = self.raw.as_ptr();
        // SAFETY: as `new` promises. varnishd itself changes times of objects without a lock.
        unsafe {
            let now = now();
            let lifetime = f64::from((*object).ttl);
            if (*object).t_origin + lifetime <= now {
                return;
            }
            // One with the shortest lifetime of all is validated by each request for itself.
            if now - (*object).t_origin < YOUNG {
                (*object).t_origin = now - YOUNG;
            }
            let age = rounded_down(now - (*object).t_origin);
            sys::EXP_Rearm(object, (*object).t_origin, age, f64::NAN, f64::NAN);
        }
    }

    fn has_flag(&self, flags: u32) -> bool {
        u32::from(self.raw().flags) & flags != 0
    }

    fn raw(&self) -> &sys::objcore {
        // SAFETY: as `new` promises. The reference does not outlive the expression that it is
        // used in.
        unsafe { self.raw.as_ref() }
    }
}

/// The next number that varnishd can keep as a lifetime: it must not be fresh for a moment more.
#[allow(clippy::cast_possible_truncation)]
fn rounded_down(seconds: f64) -> f64 {
    let near = seconds as f32;
    f64::from(if f64::from(near) > seconds { f32::from_bits(near.to_bits() - 1) } else { near })
}

/// From varnishd's clock.
pub(super) fn timestamp(seconds: f64) -> Timestamp {
    let millis = Duration::try_from_secs_f64(seconds).map_or(0, |since| since.as_millis());
    Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}

/// To varnishd's clock.
pub(super) fn seconds(time: Timestamp) -> f64 {
    let millis = u64::try_from(time.millis()).unwrap_or(0);
    Duration::from_millis(millis).as_secs_f64()
}

fn duration(seconds: f32) -> Duration {
    Duration::try_from_secs_f32(seconds).unwrap_or_default()
}
