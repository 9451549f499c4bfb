//! varnishd's parameters, and the threads that they allow.

use std::time::Duration;

use ghost_core::shares::{Place, THREAD_POOLS};
use ghost_sync::Numbering;

use super::sys;

/// One in this many threads of a pool is not for requests that a share counts. Acceptors, a
/// request whose head is on its way, and responses of ghost's own need threads too.
const SPARE: u32 = 10;

/// The thread pools, by their addresses, in the order of their first request.
static POOLS: Numbering<THREAD_POOLS> = Numbering::new();

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

/// How long a pipe may be silent; zero means no limit.
pub(super) fn pipe_timeout() -> Duration {
    // SAFETY: as above.
    let seconds = unsafe { (&raw const (*sys::cache_param).pipe_timeout).read_volatile() };
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// How many thread pools varnishd has.
fn thread_pools() -> u32 {
    // SAFETY: as above.
    unsafe { (&raw const (*sys::cache_param).wthread_pools).read_volatile() }
}

/// How many threads a pool of varnishd's may have.
pub fn most_threads() -> usize {
    // SAFETY: as above.
    let threads = unsafe { (&raw const (*sys::cache_param).wthread_max).read_volatile() };
    usize::try_from(threads).unwrap_or(0)
}

/// Where a worker is.
///
/// # Safety
/// `worker` is null or valid.
pub(super) unsafe fn place(worker: *const sys::worker) -> Place {
    // SAFETY: as promised by the caller.
    let pool = unsafe { worker.as_ref() }.map_or(0, |worker| worker.pool as usize);
    let threads = threads_of_one_pool();
    Place { pool: number(pool), workers: for_requests(threads), spare: threads / SPARE }
}

/// The number of a thread pool. Beyond the most that varnishd may have at a time, where
/// an administrator replaces pools, the last number is for all.
fn number(pool: usize) -> usize {
    POOLS.number(pool)
}

/// How many workers there are for requests, in all thread pools.
pub fn workers_for_requests() -> u32 {
    for_requests(threads_of_one_pool()).saturating_mul(thread_pools())
}

fn for_requests(threads: u32) -> u32 {
    threads - threads / SPARE
}

fn threads_of_one_pool() -> u32 {
    u32::try_from(most_threads()).unwrap_or(u32::MAX)
}
