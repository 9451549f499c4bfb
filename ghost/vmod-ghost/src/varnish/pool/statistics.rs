//! Room for the statistics that varnishd keeps of its backends.
//!
//! On its own a backend uses a file and a mapping of a page; thousands of them would need
//! seconds to create and come near the limit of mappings. Backends that ghost creates
//! together share one, which varnishd frees with the last of them.

use std::ptr;

use crate::varnish::sys;
use crate::varnish::vcl::bare_context;

/// The first backends of a change have room of their own: most changes add no more.
const ALONE: usize = 4;

/// Room for the backends of one change, in clusters that double in size.
pub struct Statistics {
    given: usize,
    left: usize,
    cluster: *mut sys::vsmw_cluster,
}

impl Default for Statistics {
    fn default() -> Self {
        Self { given: 0, left: 0, cluster: ptr::null_mut() }
    }
}

impl Statistics {
    /// Where to create the next backend; null means room of its own.
    pub(super) fn next(&mut self) -> *mut sys::vsmw_cluster {
        if self.given >= ALONE && self.left == 0 {
            self.release();
            let ctx = bare_context();
            // SAFETY: both functions look at nothing but the context's magic.
            self.cluster = unsafe {
                let each = sys::VRT_backend_vsm_need(&raw const ctx);
                sys::VRT_VSM_Cluster_New(&raw const ctx, each * self.given)
            };
            self.left = self.given;
        }
        self.given += 1;
        self.left = self.left.saturating_sub(1);
        self.cluster
    }

    /// varnishd counts the backends in a cluster; ours is one reference more.
    fn release(&mut self) {
        if self.cluster.is_null() {
            return;
        }
        let ctx = bare_context();
        // SAFETY: gives back the reference that this value holds, and clears it.
        unsafe { sys::VRT_VSM_Cluster_Destroy(&raw const ctx, &raw mut self.cluster) };
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        self.release();
    }
}
