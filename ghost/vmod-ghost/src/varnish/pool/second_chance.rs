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
        let withheld = (once && fetch.raw().no_retry.is_null()).then_some(SENT_ONCE.as_ptr());
        if let Some(reason) = withheld {
            set(fetch, reason);
        }
        Self { withheld }
    }

    /// Give it back. A reason that varnishd itself found stays: the body is gone.
    pub(super) fn end(self, fetch: &mut Fetch<'_>) {
        if self.withheld == Some(fetch.raw().no_retry) {
            set(fetch, std::ptr::null());
        }
    }
}

fn set(fetch: &mut Fetch<'_>, reason: *const c_char) {
    // SAFETY: varnishd passed the busyobj, and only this thread works on it during the call.
    unsafe { (*fetch.bo()).no_retry = reason };
}
