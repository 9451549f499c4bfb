//! varnishd's storages, of which it installs no headers: what ghost needs of them.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use super::super::sys;

/// How varnishd calls the function that reads an object, with what gets each piece.
pub(in super::super) type Read = unsafe extern "C" fn(
    worker: *mut sys::worker,
    object: *mut sys::objcore,
    receiver: *mut c_void,
    each: sys::objiterate_f,
    last: c_int,
) -> c_int;

/// How it calls the one that looks an attribute up.
pub(in super::super) type Attribute = unsafe extern "C" fn(
    worker: *mut sys::worker,
    object: *mut sys::objcore,
    which: c_uint,
    length: *mut isize,
) -> *const c_void;

/// How it calls the one that gives the memory of a body back.
type Slim = unsafe extern "C" fn(worker: *mut sys::worker, object: *mut sys::objcore);

/// What a storage does with objects: varnishd's `struct obj_methods`, with a function more from
/// version 8 on.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) struct Methods {
    remove: *const c_void,
    pub(super) read: Read,
    extend: [*const c_void; 2],
    attribute: Attribute,
    before_slim: [*const c_void; 3],
    pub(super) slim: Option<Slim>,
    others: [*const c_void; OTHERS],
}

#[cfg(not(vrt22_reads_ahead))]
const OTHERS: usize = 2;
#[cfg(vrt22_reads_ahead)]
const OTHERS: usize = 3;

// SAFETY: addresses of functions, which never change.
unsafe impl Send for Methods {}
// SAFETY: as above.
unsafe impl Sync for Methods {}

impl Methods {
    /// The same, but for how an object is read, and how the memory of its body is given back.
    pub(super) const fn with(self, read: Read, slim: Slim) -> Self {
        Self { read, slim: Some(slim), ..self }
    }

    /// Of objects that varnishd only reads.
    pub(in super::super) const fn reading(read: Read, attribute: Attribute) -> Self {
        let none = ptr::null();
        Self {
            remove: none,
            read,
            extend: [none; 2],
            attribute,
            before_slim: [none; 3],
            slim: None,
            others: [none; OTHERS],
        }
    }
}

/// As varnishd has it in each storage.
pub(in super::super) const STEVEDORE_MAGIC: c_uint = 0x4baf_43db;

/// The beginning of varnishd's `struct stevedore`: a storage.
#[repr(C)]
pub(in super::super) struct Storage {
    magic: c_uint,
    before: [*const c_void; 13],
    pub(super) methods: *mut Methods,
}

// SAFETY: varnishd and ghost change the methods alone, as one value.
unsafe impl Sync for Storage {}

impl Storage {
    /// Of objects of ghost's own.
    pub(in super::super) const fn with(magic: c_uint, methods: *const Methods) -> Self {
        Self { magic, before: [ptr::null(); 13], methods: methods.cast_mut() }
    }
}
