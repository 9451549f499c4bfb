//! Sockets of varnishd's, while it has them open.

use std::ffi::{c_int, c_short, c_ulong, c_void};
use std::mem;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// As the kernel defines them on Linux.
const POLLIN: c_short = 1;
const POLLOUT: c_short = 4;
const SOL_SOCKET: c_int = 1;
const SO_SNDBUF: c_int = 7;
const SHUT_RDWR: c_int = 2;

#[repr(C)]
struct PollFd {
    fd: c_int,
    events: c_short,
    revents: c_short,
}

extern "C" {
    fn poll(of: *mut PollFd, count: c_ulong, milliseconds: c_int) -> c_int;
    fn shutdown(fd: c_int, how: c_int) -> c_int;
    fn getsockopt(
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        length: *mut u32,
    ) -> c_int;
}

/// A socket that is open during a call.
#[derive(Clone, Copy)]
pub(super) struct Socket(pub(super) c_int);

impl Socket {
    /// Wait until there is something to read, or an end or an error to be found; false if
    /// there is none by then.
    pub(super) fn is_readable_by(self, end: Instant) -> bool {
        self.waits(POLLIN, end)
    }

    /// Wait until there is room for a write, or an error to be found; false if there is none
    /// by then.
    pub(super) fn is_writable_by(self, end: Instant) -> bool {
        self.waits(POLLOUT, end)
    }

    /// How many bytes a write takes without waiting, once the socket is writable. The kernel
    /// calls it so when a third of the buffer is free, and counts its own overhead.
    pub(super) fn room(self) -> isize {
        let mut size: c_int = 0;
        let mut length = u32::try_from(mem::size_of::<c_int>()).unwrap_or(0);
        // SAFETY: the kernel writes as many bytes as an int has.
        let got = unsafe {
            let size = (&raw mut size).cast();
            getsockopt(self.0, SOL_SOCKET, SO_SNDBUF, size, &raw mut length)
        };
        let size = if got == 0 { size } else { 0 };
        isize::try_from(size / 8).unwrap_or(0).max(LEAST)
    }

    /// A descriptor of ghost's own for the same connection, if the process may have one more.
    pub(super) fn duplicate(self) -> Option<OwnedFd> {
        // SAFETY: it is open during the call.
        unsafe { BorrowedFd::borrow_raw(self.0) }.try_clone_to_owned().ok()
    }

    /// Have reads and writes end or fail from now on.
    pub(super) fn shut_down(self) {
        // SAFETY: takes no memory. It fails where the peer has closed, which is as good.
        unsafe { shutdown(self.0, SHUT_RDWR) };
    }

    fn waits(self, events: c_short, end: Instant) -> bool {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let mut one = PollFd { fd: self.0, events, revents: 0 };
            // SAFETY: the kernel reads and writes one entry.
            match unsafe { poll(&raw mut one, 1, milliseconds(left)) } {
                // Too early by less than a millisecond, or a limit beyond what fits.
                0 if Instant::now() < end => {}
                0 => return false,
                // Interrupted: a real error is for varnishd to find.
                -1 if Instant::now() < end && is_interrupted() => {}
                _ => return true,
            }
        }
    }
}

/// A write of this many bytes fits into any buffer that is not full.
const LEAST: isize = 4096;

fn milliseconds(time: Duration) -> c_int {
    c_int::try_from(time.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX)
}

fn is_interrupted() -> bool {
    std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
}
