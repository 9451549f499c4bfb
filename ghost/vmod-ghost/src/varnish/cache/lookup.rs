//! Lookups: ghost decides for each stored object that has the key of a request.
//!
//! varnishd calls a function for each object while it holds the lock of the key (`req->vcf`;
//! it has no documentation, and varnishd's own comment asks for care). The function must be
//! short. It sees objects of all variants that are neither banned nor expired for good: ghost
//! compares Vary itself.

use std::ffi::c_int;
use std::mem;
use std::ptr;
use std::slice;

use ghost_core::cache::Timestamp;

use super::super::client::Client;
use super::super::fence::fence;
use super::super::fetch::now;
use super::super::http::Http;
use super::super::sys;
use super::super::task::{Memory, Task};
use super::super::workspace;
use super::object::{timestamp, Object};
use super::variants::Others;

/// What becomes of a request for which an object is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What varnishd does: answer with it if it is fresh or in grace.
    Default,
    /// Answer with it.
    Hit,
    /// Validate it, although it is fresh or in grace.
    Validate,
    /// The same, without waiting for a fetch of the same object.
    ValidateAlone,
    /// Go on as if it were not there.
    Ignore,
}

/// Decides in the lookups of a task.
pub trait Choose: Task {
    /// A lookup begins, with at least one object.
    fn begin(&mut self);

    /// A lookup ends. Another one follows if the request has to wait for a fetch.
    fn end(&mut self);

    /// Decide about an object that fits the request.
    fn choose(&mut self, object: &Object<'_>, now: Timestamp) -> Verdict;

    /// Whether the origin gets the same for all requests of this key, whatever a client has in
    /// this header: variants can't differ by it.
    fn is_irrelevant(&self, name: &str) -> bool;

    /// Whether two requests mean the same by a header that a response varies by.
    fn means_the_same(&self, name: &str, one: Option<&[u8]>, other: Option<&[u8]>) -> bool;

    /// There is an object of another variant.
    fn mismatch(&mut self);
}

/// What varnishd's pointer leads to; it lives on the workspace, as the memory does.
#[repr(C)]
struct Armed<T> {
    vcf: sys::vcf,
    memory: *const Memory<T>,
    /// Whether a lookup is under way.
    running: bool,
    /// The objects of other variants that it has passed.
    others: Others,
    /// `req.ttl`, `req.grace` and `req.time` as they were.
    before: (f64, f64, f64),
    /// `req.hash_ignore_busy` as it was.
    ignored_busy: bool,
}

impl Client<'_> {
    /// Have no lookup ask ghost, until it is told to.
    pub fn decide_no_lookup(&self) {
        // SAFETY: the request is this thread's, and looks nothing up now.
        unsafe {
            let req = self.ctx.req;
            if !(*req).vcf.is_null() {
                // A lookup was prepared; user VCL may have prevented it.
                (*req).set_hash_ignore_vary(0);
            }
            (*req).vcf = ptr::null_mut();
        }
    }

    /// Have the lookup that follows ask `memory`; false when the workspace is full.
    pub fn decide_lookup<T: Choose>(&self, memory: &Memory<T>) -> bool {
        // SAFETY: the workspace of the task is this thread's. What is written there lives as
        // long as `memory`, which is on the same workspace. A rollback resets `req->vcf`.
        unsafe {
            let Some(room) = workspace::room_for::<Armed<T>>(self.ctx.ws) else { return false };
            let armed = room.cast::<Armed<T>>();
            let req = self.ctx.req;
            let vcf = sys::vcf {
                magic: sys::VCF_MAGIC,
                func: Some(call::<T>),
                priv_: armed.as_ptr().cast(),
            };
            let before = ((*req).d_ttl, (*req).d_grace, (*req).t_req);
            let ignored_busy = (*req).hash_ignore_busy() != 0;
            let (running, others) = (false, Others::none());
            armed.write(Armed { vcf, memory, running, others, before, ignored_busy });
            (*req).vcf = (&raw mut (*armed.as_ptr()).vcf).cast();
            (*req).set_hash_ignore_vary(1);
        }
        true
    }
}

unsafe extern "C" fn call<T: Choose>(
    req: *mut sys::req,
    found: *mut *mut sys::objcore,
    stale: *mut *mut sys::objcore,
    step: c_int,
) -> *const sys::vcf_return {
    // varnishd compares no variants: after a panic none of them is the answer.
    let fallback =
        if step == 0 { return_(&raw const sys::VCF_CONTINUE) } else { default_verdict() };
    fence(None, "candidate", fallback, || {
        // SAFETY: varnishd passes the request that `decide_lookup` prepared, and holds the lock
        // of the key in the states 0 and 1. Nothing else refers to what is armed.
        unsafe {
            let armed = (*(*req).vcf).priv_.cast::<Armed<T>>();
            match step {
                0 => candidate(req, armed, *found, stale),
                1 => {
                    if mem::take(&mut (*armed).running) {
                        (*armed).others.remove_excess((*req).wrk);
                    }
                    let memory = &*(*armed).memory;
                    memory.get_mut().end();
                    (*req).set_hash_ignore_vary(1);
                    default_verdict()
                }
                _ => {
                    restore(req, armed);
                    (*req).set_hash_ignore_vary(0);
                    default_verdict()
                }
            }
        }
    })
}

/// # Safety
/// As for [`call`], in the state 0.
unsafe fn candidate<T: Choose>(
    req: *mut sys::req,
    armed: *mut Armed<T>,
    object: *mut sys::objcore,
    stale: *mut *mut sys::objcore,
) -> *const sys::vcf_return {
    // SAFETY: as promised by the caller.
    unsafe {
        let memory = &*(*armed).memory;
        let mut task = memory.get_mut();
        if !(*armed).running {
            ((*armed).running, (*armed).others) = (true, Others::none());
            restore(req, armed);
            task.begin();
        }
        expect_busy(req, object);
        if !fits(req, object, &*task) {
            task.mismatch();
            (*armed).others.pass(object);
            return return_(&raw const sys::VCF_CONTINUE);
        }
        let Some(candidate) = Object::new(object, (*req).wrk) else { return default_verdict() };
        if candidate.is_marker() {
            return default_verdict();
        }
        // The request may be older than the object: it waited, or is that of a page that
        // includes others. What is stale at once isn't fresh for it.
        let stale_at_once = candidate.is_stale_at_once();
        let time = if stale_at_once { now().max((*req).t_req) } else { (*req).t_req };
        let now = timestamp(time);
        match task.choose(&candidate, now) {
            Verdict::Default => default_verdict(),
            Verdict::Hit => return_(&raw const sys::VCF_HIT),
            Verdict::Ignore => return_(&raw const sys::VCF_CONTINUE),
            verdict @ (Verdict::Validate | Verdict::ValidateAlone) => {
                let newest = (*stale).is_null() || (**stale).t_origin < (*object).t_origin;
                if verdict == Verdict::ValidateAlone {
                    (*req).set_hash_ignore_busy(1);
                    // Each fetch leaves an object, and removes the one that it validates.
                    if !newest && (**stale).boc.is_null() {
                        candidate.discard();
                    }
                }
                if newest {
                    *stale = object;
                }
                // For varnishd the object is then stale and beyond its grace.
                (*req).d_ttl = 1e-9;
                (*req).d_grace = 0.0;
                (*req).t_req = time;
                return_(&raw const sys::VCF_CONTINUE)
            }
        }
    }
}

/// Busy objects follow all others in the list. varnishd compares their Vary by itself if it is
/// to: otherwise the fetch of one variant would hold up requests for all of them. varnishd
/// doesn't ask about objects that are gone.
///
/// # Safety
/// As for [`call`], in the state 0.
unsafe fn expect_busy(req: *mut sys::req, object: *mut sys::objcore) {
    // SAFETY: as promised by the caller; the lock of the key covers its list.
    unsafe {
        let mut next = (*object).hsh_list.vtqe_next;
        while !next.is_null() && is_skipped(&*next) {
            next = (*next).hsh_list.vtqe_next;
        }
        if !next.is_null() && u32::from((*next).flags) & sys::OC_F_BUSY != 0 {
            (*req).set_hash_ignore_vary(0);
        }
    }
}

fn is_skipped(object: &sys::objcore) -> bool {
    let flags = u32::from(object.flags);
    flags & (sys::OC_F_DYING | sys::OC_F_FAILED) != 0
        || (flags & sys::OC_F_BUSY == 0 && object.ttl <= 0.0)
}

/// # Safety
/// As for [`call`].
unsafe fn restore<T>(req: *mut sys::req, armed: *mut Armed<T>) {
    // SAFETY: as promised by the caller.
    unsafe {
        ((*req).d_ttl, (*req).d_grace, (*req).t_req) = (*armed).before;
        (*req).set_hash_ignore_busy((*armed).ignored_busy.into());
    }
}

/// Whether an object is the variant for a request. varnishd would compare what the client sent
/// with what the origin got, which is less where a policy or a filter removes a header.
///
/// # Safety
/// As for [`call`], in the state 0.
unsafe fn fits<T: Choose>(req: *mut sys::req, object: *mut sys::objcore, task: &T) -> bool {
    // SAFETY: as promised by the caller; the attribute is a list of headers as varnishd wrote
    // it: length of the value, length and text of the name, NUL, value; an empty name ends it.
    unsafe {
        let worker = (*req).wrk;
        if sys::ObjHasAttr(worker, object, sys::OA_VARY) == 0 {
            return true;
        }
        let mut entry: *const u8 =
            sys::ObjGetAttr(worker, object, sys::OA_VARY, ptr::null_mut()).cast();
        if entry.is_null() {
            return false;
        }
        let Some(http) = Http::new((*req).http) else { return false };
        while *entry.add(2) != 0 {
            let length = usize::from(u16::from_be_bytes([*entry, *entry.add(1)]));
            let named = usize::from(*entry.add(2));
            let name = slice::from_raw_parts(entry.add(3), named.saturating_sub(1));
            let value = entry.add(4 + named);
            let absent = length == usize::from(u16::MAX);
            let length = if absent { 0 } else { length };
            let stored = (!absent).then(|| slice::from_raw_parts(value, length));
            let Ok(known) = std::str::from_utf8(name) else { return false };
            let mut asked = http.values(name);
            // varnishd recorded the first line only, so that a repeated header fits nothing.
            let (first, second) = (asked.next(), asked.next());
            let fits = second.is_none() && task.means_the_same(known, stored, first);
            if !fits && !task.is_irrelevant(known) {
                return false;
            }
            entry = value.add(length);
        }
        true
    }
}

fn default_verdict() -> *const sys::vcf_return {
    return_(&raw const sys::VCF_DEFAULT)
}

/// varnishd declares each as an array of one.
fn return_(of: *const [sys::vcf_return; 1]) -> *const sys::vcf_return {
    of.cast()
}
