//! Memory of a task: allocated by moving a pointer, freed all at once when the task ends.

use std::ffi::c_char;
use std::mem::{self, MaybeUninit};
use std::ptr::{self, NonNull};
use std::slice;

use super::sys;

/// Workspaces align what they give out like pointers.
const ALIGNMENT: usize = mem::align_of::<*mut ()>();

/// Room for a `T`; None when the workspace is full.
///
/// # Safety
/// `workspace` is valid and belongs to this thread.
pub(super) unsafe fn room_for<T>(workspace: *mut sys::ws) -> Option<NonNull<MaybeUninit<T>>> {
    const { assert!(mem::align_of::<T>() <= ALIGNMENT) };
    let size = u32::try_from(mem::size_of::<T>()).ok()?;
    // SAFETY: as promised by the caller.
    NonNull::new(unsafe { sys::WS_Alloc(workspace, size) }.cast())
}

/// Whether pieces of these sizes fit. Unlike an allocation that fails, this leaves no trace.
///
/// # Safety
/// `workspace` is valid and belongs to this thread.
pub(super) unsafe fn has_room(workspace: *const sys::ws, sizes: &[usize]) -> bool {
    // SAFETY: as promised by the caller; both point into the same memory, or to its end.
    let free = unsafe { (*workspace).e.offset_from((*workspace).f) };
    let needed: usize = sizes.iter().map(|size| size.next_multiple_of(ALIGNMENT)).sum();
    usize::try_from(free).is_ok_and(|free| needed <= free)
}

/// The pieces as one NUL-terminated string; None when the workspace is full. Bytes that
/// would end a header line or the string become spaces.
///
/// # Safety
/// `workspace` is valid and belongs to this thread.
pub(super) unsafe fn text(workspace: *mut sys::ws, pieces: &[&[u8]]) -> Option<NonNull<c_char>> {
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    let size = u32::try_from(length + 1).ok()?;
    // SAFETY: as promised by the caller.
    let start: NonNull<u8> = NonNull::new(unsafe { sys::WS_Alloc(workspace, size) }.cast())?;
    // SAFETY: WS_Alloc returned `length + 1` bytes that nothing else refers to; all of them
    // are written before a slice refers to them.
    let line = unsafe {
        let mut end = start.as_ptr();
        for piece in pieces {
            ptr::copy_nonoverlapping(piece.as_ptr(), end, piece.len());
            end = end.add(piece.len());
        }
        end.write(0);
        slice::from_raw_parts_mut(start.as_ptr(), length)
    };
    for byte in line {
        if matches!(*byte, b'\r' | b'\n' | 0) {
            *byte = b' ';
        }
    }
    Some(start.cast())
}

/// Whether an allocation has failed since varnishd last looked.
///
/// # Safety
/// `workspace` is valid and belongs to this thread.
pub(super) unsafe fn has_overflowed(workspace: *mut sys::ws) -> bool {
    // SAFETY: as promised by the caller.
    unsafe { sys::WS_Overflowed(workspace) != 0 }
}
