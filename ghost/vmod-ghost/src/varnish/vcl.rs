//! The VCL that ghost adds directors to.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::sys;

/// A VCL that ghost is in. Directors can be added, used and released while it is warm; at
/// any other time nothing happens, whichever thread tries.
#[derive(Clone)]
pub struct Vcl(Arc<State>);

struct State {
    /// Null unless the VCL is warm.
    warm: AtomicPtr<sys::vcl>,
    /// How many threads are adding or releasing a director.
    visitors: AtomicUsize,
}

impl Vcl {
    /// A VCL that is not warm yet.
    pub(super) fn cold() -> Self {
        let warm = AtomicPtr::new(ptr::null_mut());
        Self(Arc::new(State { warm, visitors: AtomicUsize::new(0) }))
    }

    /// varnishd says that the VCL of this context becomes warm.
    pub(super) fn open(&self, ctx: &sys::vrt_ctx) {
        self.0.warm.store(ctx.vcl, SeqCst);
    }

    /// varnishd says that the VCL becomes cold. Once this returns, no thread uses it.
    pub(super) fn close(&self) {
        self.0.warm.store(ptr::null_mut(), SeqCst);
        while self.0.visitors.load(SeqCst) > 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Keep the VCL warm for a moment; None if it is not.
    pub(super) fn visit(&self) -> Option<Visit<'_>> {
        // Announced first, looked at second: `close` does it the other way round, so that
        // one of the two notices the other.
        self.0.visitors.fetch_add(1, SeqCst);
        let mut visit = Visit { state: &self.0, vcl: ptr::null_mut() };
        visit.vcl = self.0.warm.load(SeqCst);
        (!visit.vcl.is_null()).then_some(visit)
    }

    /// Whether this is the VCL that varnishd is running code of.
    pub(super) fn is(&self, running: *const sys::vcl) -> bool {
        !running.is_null() && ptr::eq(self.0.warm.load(SeqCst), running)
    }
}

/// The VCL stays warm while this exists.
pub(super) struct Visit<'v> {
    state: &'v State,
    vcl: *mut sys::vcl,
}

impl Visit<'_> {
    /// A context for functions that add directors, also away from the request threads:
    /// varnishd reads nothing but these two fields of it.
    pub(super) fn context(&self) -> sys::vrt_ctx {
        sys::vrt_ctx { vcl: self.vcl, ..bare_context() }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.state.visitors.fetch_sub(1, SeqCst);
    }
}

/// A context for functions that look at nothing but its magic number.
pub(super) fn bare_context() -> sys::vrt_ctx {
    sys::vrt_ctx { magic: sys::VRT_CTX_MAGIC, ..Default::default() }
}
