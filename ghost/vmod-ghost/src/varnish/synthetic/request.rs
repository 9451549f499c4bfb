//! The body of a request to ghost itself.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_uint, c_void};
use std::slice;
use std::time::{Duration, Instant};

use crate::varnish::fence::fence;
use crate::varnish::fetch::Fetch;
use crate::varnish::sys;

/// Why there is no body.
#[derive(Clone, Copy, Debug)]
pub enum Unread {
    /// It is too large.
    TooLarge,
    /// It did not arrive, or not in time.
    Missing,
}

struct Reading {
    body: RefCell<Vec<u8>>,
    most: usize,
    until: Instant,
    too_large: Cell<bool>,
}

impl Fetch<'_> {
    /// Read the body, of `most` bytes at most. For a director that responds by itself: nothing
    /// else reads it then. Where it can't be read, varnishd closes the connection after the
    /// response.
    pub fn read_body(&self, most: usize, within: Duration) -> Result<Vec<u8>, Unread> {
        let bo = self.bo();
        let until = Instant::now() + within;
        let reading =
            Reading { body: RefCell::default(), most, until, too_large: Cell::new(false) };
        // SAFETY: while the fetch has a request, its client waits for the fetch, which reads the
        // body as varnishd does when it sends the body to a backend.
        unsafe {
            let req = (*bo).req;
            if req.is_null() {
                return Ok(Vec::new());
            }
            let priv_ = (&raw const reading).cast_mut().cast::<c_void>();
            let failed =
                sys::VRB_Iterate((*bo).wrk, (&raw mut (*bo).vsl).cast(), req, Some(piece), priv_);
            if failed < 0 {
                // varnishd would close the connection without a response.
                (*req).req_body_status = sys::BS_TAKEN.as_ptr();
                (*req).doclose = sys::SC_RX_BODY.as_ptr();
                return Err(if reading.too_large.get() {
                    Unread::TooLarge
                } else {
                    Unread::Missing
                });
            }
        }
        Ok(reading.body.into_inner())
    }
}

unsafe extern "C" fn piece(
    reading: *mut c_void,
    _: c_uint,
    from: *const c_void,
    length: isize,
) -> c_int {
    fence(None, "request-body", -1, || {
        // SAFETY: varnishd passes what `read_body` gave it, and so many bytes.
        let (reading, piece) = unsafe {
            let length = usize::try_from(length).unwrap_or(0);
            let piece: &[u8] =
                if length == 0 { &[] } else { slice::from_raw_parts(from.cast(), length) };
            (&*reading.cast::<Reading>(), piece)
        };
        let mut body = reading.body.borrow_mut();
        reading.too_large.set(body.len() + piece.len() > reading.most);
        if reading.too_large.get() || Instant::now() > reading.until {
            return -1;
        }
        body.extend_from_slice(piece);
        0
    })
}
