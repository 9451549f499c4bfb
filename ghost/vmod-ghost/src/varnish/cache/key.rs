//! The key of a request.

use std::ffi::CStr;

use super::super::client::Client;
use super::super::sys;

impl Client<'_> {
    /// Add text to the key, where `vcl_hash` runs.
    pub fn add_to_key(&self, text: &CStr) {
        if self.ctx.method != sys::VCL_MET_HASH {
            return;
        }
        let mut piece = text.as_ptr();
        let strands = sys::strands { n: 1, p: &raw mut piece };
        // SAFETY: vcl_hash runs, so that there is a hash; varnishd reads the text at once.
        unsafe { sys::VRT_hashdata(self.ctx, &raw const strands) };
    }
}
