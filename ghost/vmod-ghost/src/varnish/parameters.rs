//! varnishd's parameters.

use super::sys;

/// Seconds, as the parameters `connect_timeout`, `first_byte_timeout`,
/// `between_bytes_timeout` and `timeout_idle` give them.
pub(super) struct UsualTimeouts {
    pub(super) connect: f64,
    pub(super) first_byte: f64,
    pub(super) between_bytes: f64,
    pub(super) idle: f64,
}

/// The time-outs of fetches for which VCL sets none, and of silent clients.
pub(super) fn usual_timeouts() -> UsualTimeouts {
    // SAFETY: varnishd sets the pointer before it loads a VMOD, and keeps what it points to
    // for as long as it runs. An administrator may change a value at any time.
    unsafe {
        let parameters = sys::cache_param;
        UsualTimeouts {
            connect: (&raw const (*parameters).connect_timeout).read_volatile(),
            first_byte: (&raw const (*parameters).first_byte_timeout).read_volatile(),
            between_bytes: (&raw const (*parameters).between_bytes_timeout).read_volatile(),
            idle: (&raw const (*parameters).timeout_idle).read_volatile(),
        }
    }
}

/// How many threads a pool of varnishd's may have.
pub fn most_threads() -> usize {
    // SAFETY: as above.
    let threads = unsafe { (&raw const (*sys::cache_param).wthread_max).read_volatile() };
    usize::try_from(threads).unwrap_or(0)
}
