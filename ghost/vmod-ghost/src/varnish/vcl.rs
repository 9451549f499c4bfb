//! The VCL that ghost adds directors to.

use std::sync::Arc;

use ghost_sync::{Gate, Visit};

use super::sys;

/// A VCL that ghost is in. Directors can be added, used and released while it is warm; at
/// any other time nothing happens, whichever thread tries.
#[derive(Clone)]
pub struct Vcl(Arc<Gate<sys::vcl>>);

impl Vcl {
    /// A VCL that is not warm yet.
    pub(super) fn cold() -> Self {
        Self(Arc::new(Gate::closed()))
    }

    /// varnishd says that the VCL of this context becomes warm.
    pub(super) fn open(&self, ctx: &sys::vrt_ctx) {
        self.0.open(ctx.vcl);
    }

    /// varnishd says that the VCL becomes cold. Once this returns, no thread uses it.
    pub(super) fn close(&self) {
        self.0.close();
    }

    /// Keep the VCL warm for a moment; None if it is not.
    pub(super) fn visit(&self) -> Option<Visit<'_, sys::vcl>> {
        self.0.visit()
    }

    /// Whether this is the VCL that varnishd is running code of.
    pub(super) fn is(&self, running: *const sys::vcl) -> bool {
        self.0.leads_to(running)
    }
}

/// A context for functions that add directors, also away from the request threads: varnishd
/// reads nothing but these two fields of it.
pub(super) fn context(visit: &Visit<'_, sys::vcl>) -> sys::vrt_ctx {
    sys::vrt_ctx { vcl: visit.place(), ..bare_context() }
}

/// A context for functions that look at nothing but its magic number.
pub(super) fn bare_context() -> sys::vrt_ctx {
    sys::vrt_ctx { magic: sys::VRT_CTX_MAGIC, ..Default::default() }
}
