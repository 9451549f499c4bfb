//! Reading and editing `struct http`, the head of a request or a response.
//!
//! ghost scans header tables itself: the C functions take a header name type that differs
//! between versions. Values are bytes and need not be UTF-8. Edits live on the workspace of
//! the task; when it is full they return an error and change nothing more.
//!
//! Several values may refer to one head. Each method looks at the table for itself, and no
//! reference into the table outlives the method, so that an edit through one value can't
//! invalidate another. Header values point to the workspace, where nothing is overwritten
//! during a call.

use std::ffi::{c_char, CStr};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::slice;

use super::sys;
use super::workspace;

/// The workspace, or the header table, of the task is full.
#[derive(Clone, Copy, Debug)]
pub struct OutOfWorkspace;

/// The head of a message, for as long as the call into ghost lasts.
pub struct Http<'a> {
    raw: NonNull<sys::http>,
    call: PhantomData<&'a mut sys::http>,
}

const METHOD: usize = sys::HTTP_HDR_METHOD as usize;
const URL: usize = sys::HTTP_HDR_URL as usize;
const PROTOCOL: usize = sys::HTTP_HDR_PROTO as usize;
const FIRST: usize = sys::HTTP_HDR_FIRST as usize;

impl<'a> Http<'a> {
    /// None for a null pointer.
    ///
    /// # Safety
    /// `raw` is null or points to a set-up `struct http` of this thread's. During `'a`, what
    /// its fields point to is not freed or overwritten.
    pub(super) unsafe fn new(raw: *mut sys::http) -> Option<Self> {
        NonNull::new(raw).map(|raw| Self { raw, call: PhantomData })
    }

    /// The request method.
    pub fn method(&self) -> &'a [u8] {
        self.field(METHOD)
    }

    /// The request target.
    pub fn url(&self) -> &'a [u8] {
        self.field(URL)
    }

    /// The protocol of the request.
    pub fn protocol(&self) -> &'a [u8] {
        self.field(PROTOCOL)
    }

    /// The response status.
    pub fn status(&self) -> u16 {
        self.table().status
    }

    /// The first value of a header.
    pub fn header(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.values(name).next()
    }

    /// Every value of a header, in order.
    pub fn values<'n>(&self, name: &'n [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a, '_, 'n> {
        (FIRST..self.len()).filter_map(move |index| value_of(self.field(index), name))
    }

    /// Every header line.
    pub fn lines(&self) -> impl Iterator<Item = &'a [u8]> + use<'a, '_> {
        (FIRST..self.len()).map(|index| self.field(index))
    }

    /// Whether a request is the handshake of a WebSocket (RFC 6455, section 4.1). No other
    /// protocol counts: ghost does not look at what follows, and with h2c that would be further
    /// requests.
    pub fn asks_for_websocket(&self) -> bool {
        let has = |name: &[u8], token: &[u8]| {
            let mut tokens = self.values(name).flat_map(|value| value.split(|&byte| byte == b','));
            tokens.any(|one| one.trim_ascii().eq_ignore_ascii_case(token))
        };
        let mut upgrades = self.values(b"upgrade");
        let only = upgrades.next().is_some_and(|one| one.eq_ignore_ascii_case(b"websocket"));
        only && upgrades.next().is_none()
            && self.method() == b"GET"
            && self.protocol() == b"HTTP/1.1"
            && has(b"connection", b"upgrade")
            && self.header(b"sec-websocket-key").is_some_and(|key| !key.is_empty())
            && self.header(b"sec-websocket-version").is_some_and(|version| !version.is_empty())
            && self.header(b"content-length").is_none_or(|length| length == b"0")
            && self.header(b"transfer-encoding").is_none()
    }

    /// Whether the message says that a body follows its head.
    pub fn announces_body(&self) -> bool {
        self.values(b"content-length").any(|length| length.iter().any(|&digit| digit != b'0'))
            || self.header(b"transfer-encoding").is_some()
    }

    /// Remove what says that a body follows the head.
    pub fn announce_no_body(&mut self) {
        self.remove(b"content-length");
        self.remove(b"transfer-encoding");
    }

    /// Replace the request target.
    pub fn set_url(&mut self, url: &[u8]) -> Result<(), OutOfWorkspace> {
        let text = self.on_workspace(&[url])?;
        // SAFETY: the text ends with NUL and lives as long as the workspace; the first line
        // of a request is always within the table.
        unsafe { sys::http_SetH(self.raw.as_ptr(), sys::HTTP_HDR_URL, text) };
        Ok(())
    }

    /// Replace every header of the name with this one.
    pub fn set(&mut self, name: &str, value: &[u8]) -> Result<(), OutOfWorkspace> {
        self.remove(name.as_bytes());
        self.append(&[name.as_bytes(), b": ", value])
    }

    /// Add a header line, given in pieces.
    pub fn append(&mut self, line: &[&[u8]]) -> Result<(), OutOfWorkspace> {
        self.check_room()?;
        let text = self.on_workspace(line)?;
        // SAFETY: there is room in the table, as checked; the text ends with NUL and lives
        // as long as the workspace.
        unsafe { sys::http_SetHeader(self.raw.as_ptr(), text) };
        Ok(())
    }

    /// Add a constant header line.
    pub fn append_static(&mut self, line: &'static CStr) -> Result<(), OutOfWorkspace> {
        self.check_room()?;
        // SAFETY: there is room in the table, as checked.
        unsafe { sys::http_SetHeader(self.raw.as_ptr(), line.as_ptr()) };
        Ok(())
    }

    /// Whether this many more header lines fit.
    pub fn has_room_for(&self, lines: u16) -> bool {
        self.table().shd.saturating_sub(self.table().nhd) >= lines
    }

    /// Remove every header of the name.
    pub fn remove(&mut self, name: &[u8]) {
        self.retain(|line| value_of(line, name).is_none());
    }

    /// Keep the header lines for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8]) -> bool) {
        let mut kept = FIRST;
        for index in FIRST..self.len() {
            if !keep(self.field(index)) {
                continue;
            }
            if kept != index {
                // SAFETY: both indices are below nhd, which is within both arrays.
                unsafe {
                    let table = self.raw.as_ref();
                    *table.hd.add(kept) = *table.hd.add(index);
                    *table.hdf.add(kept) = *table.hdf.add(index);
                }
            }
            kept += 1;
        }
        // SAFETY: `new` promises that the table is this thread's.
        unsafe {
            let table = self.raw.as_ptr();
            // kept is at most nhd, which is of this type
            (*table).nhd = (*table).nhd.min(u16::try_from(kept).unwrap_or(u16::MAX));
        }
    }

    /// Set the first line of a response; the reason is the standard one.
    pub fn put_status(&mut self, status: u16) {
        // SAFETY: the protocol is a constant; a null reason means the standard one.
        unsafe {
            sys::http_PutResponse(self.raw.as_ptr(), c"HTTP/1.1".as_ptr(), status, ptr::null());
        }
    }

    fn check_room(&self) -> Result<(), OutOfWorkspace> {
        self.has_room_for(1).then_some(()).ok_or(OutOfWorkspace)
    }

    fn table(&self) -> &sys::http {
        // SAFETY: `new` promises that it is set up.
        unsafe { self.raw.as_ref() }
    }

    fn len(&self) -> usize {
        usize::from(self.table().nhd)
    }

    fn field(&self, index: usize) -> &'a [u8] {
        if index >= self.len() {
            return b"";
        }
        // SAFETY: index is below nhd; a field is null or a range within a workspace that
        // outlives the call.
        unsafe {
            let text = *self.table().hd.add(index);
            if text.b.is_null() {
                return b"";
            }
            let length = usize::try_from(text.e.offset_from(text.b)).unwrap_or(0);
            slice::from_raw_parts(text.b.cast(), length)
        }
    }

    fn on_workspace(&self, pieces: &[&[u8]]) -> Result<*const c_char, OutOfWorkspace> {
        // SAFETY: the workspace of a set-up http is valid and this thread's.
        let text = unsafe { workspace::text(self.table().ws, pieces) };
        text.map(|text| text.as_ptr().cast_const()).ok_or(OutOfWorkspace)
    }
}

/// The standard reason of a status.
pub(super) fn reason_of(status: u16) -> &'static CStr {
    // SAFETY: varnishd returns a constant text for any status, without a buffer of ours.
    unsafe { CStr::from_ptr(sys::http_Status2Reason(status.into(), ptr::null_mut())) }
}

/// The value of a header line, if it has this name.
pub fn value_of<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    let (head, rest) = line.split_at_checked(name.len())?;
    let value = rest.strip_prefix(b":")?;
    head.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}
