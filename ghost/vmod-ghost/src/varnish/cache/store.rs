//! What becomes of the response of a fetch.

use std::ffi::{c_int, CStr};
use std::time::Duration;

use ghost_core::cache::{Exchange, Timestamp};

use super::super::fetch::Fetch;
use super::super::pool;
use super::super::sys;
use super::object::{seconds, timestamp, Object, Times, SHORTEST};
use super::outcome::write;

extern "C" {
    // varnishd exports it, and installs no header with it.
    fn HSH_DerefObjCore(
        worker: *mut sys::worker,
        object: *mut *mut sys::objcore,
        rush: c_int,
    ) -> c_int;
}

impl Fetch<'_> {
    /// When the request was sent, and when the response arrived. Earlier attempts don't make
    /// a response older.
    pub fn exchange(&self) -> Exchange {
        let fetch = self.raw();
        let requested = pool::began(self.ctx).unwrap_or(fetch.t_first);
        Exchange { requested: timestamp(requested), received: timestamp(fetch.t_resp) }
    }

    /// The present.
    pub fn now(&self) -> Timestamp {
        timestamp(self.ctx.now)
    }

    /// The times that the object is going to have.
    pub fn times(&self) -> Option<Times> {
        let fetch = self.raw();
        // SAFETY: the fetch refers to the object that it makes.
        unsafe { Object::new(fetch.fetch_objcore, fetch.wrk) }.map(|object| object.times())
    }

    /// The stale object that the response replaces.
    pub fn stale_object(&self) -> Option<Object<'_>> {
        let fetch = self.raw();
        // SAFETY: the fetch refers to it.
        unsafe { Object::new(fetch.stale_oc, fetch.wrk) }
    }

    /// The name of the store that the response would go to. Its size isn't asked for: varnishd 7.1
    /// calls through a null pointer if the store is a file.
    pub fn store_name(&self) -> Option<&str> {
        // SAFETY: null, or a storage, which lives as long as varnishd, with its name.
        let name = unsafe {
            let name = sys::VRT_STEVEDORE_string(self.raw().storage);
            (!name.is_null()).then(|| CStr::from_ptr(name))?
        };
        name.to_str().ok()?.strip_prefix("storage.")
    }

    /// Store the response.
    pub fn store(&mut self, times: Times) {
        let object = self.raw().fetch_objcore;
        if object.is_null() {
            return;
        }
        // SAFETY: the fetch makes the object, and no other thread changes it meanwhile.
        unsafe {
            // One that is stale at once is older instead, or it would be fresh for a moment.
            let lifetime = times.lifetime.as_secs_f32().max(SHORTEST);
            let earlier = lifetime - times.lifetime.as_secs_f32();
            (*object).t_origin = seconds(times.origin) - f64::from(earlier);
            (*object).ttl = lifetime;
            (*object).grace = times.grace.as_secs_f32();
            (*object).keep = times.keep.as_secs_f32();
        }
    }

    /// Don't store the response. For so long, requests for the same key don't wait for each
    /// other.
    pub fn refuse(&mut self, received: Timestamp, hit_for_miss: Duration) {
        let zero = Duration::ZERO;
        let times = Times { origin: received, lifetime: hit_for_miss, grace: zero, keep: zero };
        self.store(times);
        let object = self.raw().fetch_objcore;
        if hit_for_miss.is_zero() && !object.is_null() {
            // varnishd's lookup ignores it.
            // SAFETY: as in `store`.
            unsafe { (*object).ttl = 0.0 };
        }
        self.set_uncacheable(true);
    }

    /// Don't have varnishd remove the stale object once the response is here. The response
    /// can't be one that confirms the object.
    pub fn keep_stale_object(&mut self) {
        let bo = self.bo();
        // SAFETY: the fetch refers to the object, and gives up this reference here; varnishd
        // sets the pointer to null, and tests it wherever it uses it.
        unsafe {
            if !(*bo).stale_oc.is_null() && (*bo).was_304() == 0 {
                let _ = HSH_DerefObjCore((*bo).wrk, &raw mut (*bo).stale_oc, 0);
            }
        }
    }

    /// Compress the body before it is stored.
    pub fn compress(&self) {
        // SAFETY: called in vcl_backend_response.
        unsafe { sys::VRT_l_beresp_do_gzip(self.ctx, 1) };
    }

    /// Process edge side includes in the body.
    pub fn include(&self) {
        // SAFETY: called in vcl_backend_response.
        unsafe { sys::VRT_l_beresp_do_esi(self.ctx, 1) };
    }

    /// Write a line to the fetch's log.
    pub fn log(&self, text: &[u8]) {
        // SAFETY: a task has a log; varnishd copies the text.
        unsafe { write(self.ctx, text) };
    }
}
