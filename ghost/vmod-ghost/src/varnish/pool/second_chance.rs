//! varnishd's own second chance: it sends a request once more, whatever its method, where a
//! connection that was used before closes without a response.
//!
//! The endpoint may have closed the connection before the request came, or because of it.
//! varnishd leaves a request alone that can't be retried. So ghost declares just that for the
//! length of an attempt; the rule's retries and those of user VCL come after it.

use std::ffi::{c_char, CStr};

use crate::varnish::fetch::Fetch;

/// Why varnishd doesn't repeat the request.
const SENT_ONCE: &CStr = c"ghost: the method is not idempotent";

/// Whether ghost withholds it during an attempt.
pub(super) struct SecondChance {
    withheld: Option<*const c_char>,
}

impl SecondChance {
    /// Withhold it for a request that is to be sent `once`.
    pub(super) fn begin(fetch: &mut Fetch<'_>, once: bool) -> Self {
        let reason = &mut fetch.raw_mut().no_retry;
        let withheld = (once && reason.is_null()).then_some(SENT_ONCE.as_ptr());
        *reason = withheld.unwrap_or(*reason);
        Self { withheld }
    }

    /// Give it back. A reason that varnishd itself found stays: the body is gone.
    pub(super) fn end(self, fetch: &mut Fetch<'_>) {
        let reason = &mut fetch.raw_mut().no_retry;
        if self.withheld == Some(*reason) {
            *reason = std::ptr::null();
        }
    }
}
