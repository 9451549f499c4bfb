//! Room for the statistics that Varnish keeps of its backends.
//!
//! On its own a backend takes a file and a mapping of a page; thousands of them would take
//! seconds to create and come near the limit of mappings. Those that are created together
//! share one, which goes with the last of them.

use std::ptr;

use crate::director::Vcl;
use crate::sys;

/// So many backends of one change have room of their own: most changes bring no more.
const ALONE: usize = 4;

/// Room for the backends of one change, in clusters that double in size.
pub struct Statistics {
    vcl: Vcl,
    given: usize,
    left: usize,
    cluster: *mut sys::vsmw_cluster,
}

impl Statistics {
    /// For a change of a VCL.
    pub fn new(vcl: Vcl) -> Self {
        Self { vcl, given: 0, left: 0, cluster: ptr::null_mut() }
    }

    /// Where to create the next backend; null means room of its own.
    pub fn next(&mut self) -> *mut sys::vsmw_cluster {
        if self.given >= ALONE && self.left == 0 {
            self.release();
            let ctx = self.vcl.context();
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

    /// Varnish counts the backends in a cluster; ours is one reference more.
    fn release(&mut self) {
        if self.cluster.is_null() {
            return;
        }
        let ctx = self.vcl.context();
        // SAFETY: gives back the reference that this value holds, and clears it.
        unsafe { sys::VRT_VSM_Cluster_Destroy(&raw const ctx, &raw mut self.cluster) };
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        self.release();
    }
}
