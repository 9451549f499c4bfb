//! What varnishd counts of a fetch: bytes sent and received.

use crate::varnish::fetch::Fetch;
use crate::varnish::sys;

/// Bytes of one or more attempts.
pub(super) type Bytes = sys::acct_bereq;

/// Set what varnishd has counted.
pub(super) fn set(fetch: &mut Fetch<'_>, bytes: Bytes) {
    // SAFETY: varnishd passed the busyobj, and only this thread works on it during the call.
    unsafe { (*fetch.bo()).acct = bytes };
}

/// These bytes and `more`.
pub(super) fn sum(bytes: Bytes, more: &Bytes) -> Bytes {
    combined(bytes, more, u64::wrapping_add)
}

/// These bytes without `less`.
pub(super) fn difference(bytes: Bytes, less: &Bytes) -> Bytes {
    combined(bytes, less, u64::wrapping_sub)
}

fn combined(mut bytes: Bytes, other: &Bytes, with: fn(u64, u64) -> u64) -> Bytes {
    bytes.bereq_hdrbytes = with(bytes.bereq_hdrbytes, other.bereq_hdrbytes);
    bytes.bereq_bodybytes = with(bytes.bereq_bodybytes, other.bereq_bodybytes);
    bytes.beresp_hdrbytes = with(bytes.beresp_hdrbytes, other.beresp_hdrbytes);
    bytes.beresp_bodybytes = with(bytes.beresp_bodybytes, other.beresp_bodybytes);
    bytes
}
