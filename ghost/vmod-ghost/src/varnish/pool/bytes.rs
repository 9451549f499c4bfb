//! What varnishd counts of a fetch: bytes sent and received.

use crate::varnish::sys;

/// Bytes of one or more attempts.
pub(super) type Bytes = sys::acct_bereq;

/// Add `more` to `sum`.
pub(super) fn add(sum: &mut Bytes, more: &Bytes) {
    combine(sum, more, u64::wrapping_add);
}

/// Subtract `less` from `sum`.
pub(super) fn subtract(sum: &mut Bytes, less: &Bytes) {
    combine(sum, less, u64::wrapping_sub);
}

fn combine(sum: &mut Bytes, other: &Bytes, with: fn(u64, u64) -> u64) {
    sum.bereq_hdrbytes = with(sum.bereq_hdrbytes, other.bereq_hdrbytes);
    sum.bereq_bodybytes = with(sum.bereq_bodybytes, other.bereq_bodybytes);
    sum.beresp_hdrbytes = with(sum.beresp_hdrbytes, other.beresp_hdrbytes);
    sum.beresp_bodybytes = with(sum.beresp_bodybytes, other.beresp_bodybytes);
}
