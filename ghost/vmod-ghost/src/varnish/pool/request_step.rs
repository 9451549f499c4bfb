//! A step of ghost's before the body of a client's request, which varnishd calls for each
//! piece that it reads.

use std::mem;
use std::ptr::NonNull;

use super::socket::Socket;
use crate::varnish::processor::{Processor, Step};
use crate::varnish::sys;
use crate::varnish::workspace;

/// A step that was put before the body of a request. It lies on the workspace of the request,
/// as varnishd's entry for it does.
pub(super) struct RequestStep<S> {
    request: NonNull<sys::req>,
    step: NonNull<S>,
    entry: *mut sys::vfp_entry,
    workspace: usize,
}

impl<S: Step> RequestStep<S> {
    /// Put a step before a body that varnishd has not begun to read; None if there is no such
    /// body, or no room. varnishd's child would go down over a request without room for the
    /// entry.
    ///
    /// # Safety
    /// `request` is valid, and this thread is the one that works with its body and workspace.
    pub(super) unsafe fn push(
        processor: &'static Processor<S>,
        request: NonNull<sys::req>,
        step: S,
    ) -> Option<Self> {
        // SAFETY: as promised by the caller.
        unsafe {
            let req = request.as_ptr();
            let ws = workspace_of_request(req);
            let needed = [mem::size_of::<S>(), mem::size_of::<sys::vfp_entry>(), 64];
            if (*(*req).req_body_status).avail != 1 || !workspace::has_room(ws, &needed) {
                return None;
            }
            let workspace = sys::WS_Snapshot(ws);
            let place = workspace::room_for::<S>(ws)?.cast::<S>();
            place.write(step);
            processor.push((*req).vfc, place)?;
            let entry = (*(*req).vfc).vfp.vtqh_first;
            Some(Self { request, step: place, entry, workspace })
        }
    }

    /// Look at the step.
    ///
    /// # Safety
    /// The request is not over.
    pub(super) unsafe fn step(&self) -> &S {
        // SAFETY: as promised by the caller: the workspace is still that of the request.
        unsafe { self.step.as_ref() }
    }

    /// Leave the request as it was, for another step or for varnishd to read its body.
    ///
    /// # Safety
    /// As for [`step`](Self::step), and varnishd is not reading the body.
    pub(super) unsafe fn remove(self) {
        // SAFETY: as promised by the caller. varnishd empties the list once it has read the
        // body; before, the entry is the first of at least two.
        unsafe {
            let req = self.request.as_ptr();
            let steps = (*req).vfc;
            if (*steps).vfp.vtqh_first != self.entry {
                return;
            }
            let next = (*self.entry).list.vtqe_next;
            (*steps).vfp.vtqh_first = next;
            (*steps).vfp_nxt = next;
            let first = &raw mut (*steps).vfp.vtqh_first;
            if next.is_null() {
                (*steps).vfp.vtqh_last = first;
            } else {
                (*next).list.vtqe_prev = first;
            }
            sys::WS_Reset(workspace_of_request(req), self.workspace);
        }
    }
}

/// # Safety
/// `request` is valid.
unsafe fn workspace_of_request(request: *mut sys::req) -> *mut sys::ws {
    // SAFETY: as promised by the caller; this makes no reference.
    unsafe { (&raw mut (*request).ws).cast() }
}

/// How many bytes of a body varnishd may be asked for without waiting for a client that has sent a
/// part of it with the head: it hands that part out first, and reads the rest of what it is asked
/// for from the connection at once.
pub(super) fn without_waiting(request: &sys::req) -> isize {
    // SAFETY: a request has an htc, which has read from begin to end; both are null, or within
    // one buffer.
    unsafe {
        let Some(connection) = request.htc.as_ref() else { return isize::MAX };
        if connection.pipeline_b.is_null() {
            return isize::MAX;
        }
        connection.pipeline_e.offset_from(connection.pipeline_b).max(1)
    }
}

/// The client's connection, if it may be silent. One of many streams has no connection of
/// its own: varnishd gives up on it after `timeout_idle`.
pub(super) fn silent_client(request: &sys::req) -> Option<Socket> {
    // SAFETY: a request has an htc; its rfd is null, or points to the session's socket.
    unsafe {
        let connection = request.htc.as_ref()?;
        connection.rfd.as_ref().filter(|_| connection.pipeline_b.is_null()).map(|&fd| Socket(fd))
    }
}
