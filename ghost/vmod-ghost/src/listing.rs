//! What `backend.list` shows of ghost's directors, in the form that varnishd's own use.

use std::ffi::CString;

use crate::sys;

/// Write how many of all are healthy: the table column, or JSON. The details of a probe
/// (`-p`) are empty, for ghost has none.
///
/// # Safety
/// `out` is an open string buffer.
pub unsafe fn write(out: *mut sys::vsb, up: usize, all: usize, details: bool, json: bool) {
    let health = if up > 0 { "healthy" } else { "sick" };
    let text = match (json, details) {
        (true, true) => "{},\n".to_owned(),
        (true, false) => format!("[{up}, {all}, \"{health}\"]"),
        (false, true) => return,
        (false, false) => format!("{up}/{all}\t{health}"),
    };
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: as promised by the caller; the text is copied.
    unsafe { sys::VSB_cat(out, text.as_ptr()) };
}
