//! One fetch, several attempts: ghost restores what an attempt changed in the busyobj before
//! the next one.
//!
//! varnishd makes its own `gethdrs` to be called once per fetch. After a failure it has
//! finished its connection; this module undoes the headers that it added to bereq, its use
//! of the workspace, its filters and its byte counts.

use std::ffi::CStr;
use std::ptr;
use std::sync::Arc;
use std::time::Instant;

use super::bytes::{self, Bytes};
use super::native::Native;
use super::second_chance::SecondChance;
use super::timeouts::{Limit, Timeouts};
use super::{body_deadline, drain, finish_native, sending, served, Served};
use crate::varnish::director::methods_of;
use crate::varnish::fetch::{now, workspace_of, Fetch};
use crate::varnish::sys;
use crate::varnish::task::{self, Memory};

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A response with this status has begun.
    Answered(u16),
    /// No connection came about, so the endpoint has seen nothing, and nothing is lost.
    Unsent,
    /// The same, because time was up.
    Unreachable,
    /// The endpoint may have seen the request, or its body is gone, and the connection broke.
    Broken,
    /// The same, but time was up.
    TimedOut,
}

/// The attempts of one fetch.
///
/// It borrows the fetch, because a new attempt frees the workspace that the one before it
/// used, with every header that it received.
pub struct Attempts<'f, 'c> {
    fetch: &'f mut Fetch<'c>,
    served: &'c Memory<Served>,
    workspace: usize,
    bereq_length: u16,
    earlier: Bytes,
    last: Ended,
}

impl<'f, 'c> Attempts<'f, 'c> {
    /// Remember how everything is before the first attempt; None when the workspace is full,
    /// or a response has begun, which would not be that of an attempt.
    pub fn new(fetch: &'f mut Fetch<'c>) -> Option<Self> {
        // Before the workspace is marked, so that it survives a reset to the mark.
        let served = task::remember(fetch.ctx)?;
        if !fetch.raw().htc.is_null() {
            return None;
        }
        // SAFETY: the busyobj is this thread's, and has a bereq.
        let (workspace, bereq_length) = unsafe {
            (sys::WS_Snapshot(workspace_of(fetch.bo())), fetch.raw().bereq.as_ref()?.nhd)
        };
        let earlier = fetch.raw().acct;
        Some(Self { fetch, served, workspace, bereq_length, earlier, last: Ended::Unsent })
    }

    /// The method of the request that the attempts send. Not the request itself: an edit
    /// would point to workspace that the next attempt frees.
    pub fn method(&self) -> &[u8] {
        self.fetch.bereq().map_or(b"", |bereq| bereq.method())
    }

    /// Whether varnishd believes that this endpoint can be reached.
    pub fn is_healthy(&self, native: &Native) -> bool {
        let ctx = self.fetch.ctx;
        native.director().raw_in(ctx.vcl).is_some_and(|native| {
            // SAFETY: the director is valid in this call, for it is held.
            unsafe { sys::VRT_Healthy(ctx, native, ptr::null_mut()) != 0 }
        })
    }

    /// Fetch from one endpoint, until the limit at most. A response that the last attempt
    /// got is discarded. varnishd sends a request once more where a connection that was used
    /// before closes without a response, unless it is to be sent `once`.
    pub fn run(&mut self, native: &Arc<Native>, limit: Limit, once: bool) -> Ended {
        if self.is_answered() {
            self.discard(None);
        }
        let ctx = self.fetch.ctx;
        self.last = Ended::Unsent;
        let Some(raw) = native.director().raw_in(ctx.vcl) else { return self.last };
        // SAFETY: the director is valid in this call, for it is held.
        let Some(get_headers) = (unsafe { methods_of(raw).gethdrs }) else { return self.last };
        // Before the attempt: once it has succeeded, nothing that could panic may stand
        // between it and the return, for only `finish` gives the connection back.
        *self.served.get_mut() = Served(Some((Arc::clone(native), self.earlier)), Some(now()));
        let timeouts = Timeouts::begin(self.fetch, limit);
        let second_chance = SecondChance::begin(self.fetch, once);
        bytes::set(self.fetch, Bytes::default());
        // SAFETY: the busyobj is this thread's, and gethdrs is called as varnishd itself
        // calls it: without a connection open, with an empty beresp.
        let read_head = || unsafe { get_headers(ctx, raw) == 0 };
        let (answered, stalled) = sending::within(self.fetch, limit, read_head);
        second_chance.end(self.fetch);
        self.last = if answered {
            bytes::set(self.fetch, bytes::sum(self.fetch.raw().acct, &self.earlier));
            Ended::Answered(self.fetch.beresp().map_or(0, |beresp| beresp.status()))
        } else {
            let bytes = self.fetch.raw().acct;
            // A body that was read for this attempt is gone, if none of it was written.
            let sent = bytes.bereq_hdrbytes > 0 || !self.can_repeat();
            let failure = timeouts.failure(self.fetch, sent);
            self.earlier = bytes::sum(self.earlier, &bytes);
            self.restore();
            if stalled {
                Ended::TimedOut
            } else {
                failure
            }
        };
        timeouts.end(self.fetch);
        self.discard_if_late(limit, stalled);
        self.last
    }

    /// A response whose head is complete only when time is up would lose its body, as would one
    /// whose connection was shut down.
    fn discard_if_late(&mut self, limit: Limit, stalled: bool) {
        let end = if stalled { Some(Instant::now()) } else { limit.moment() };
        let late = end.filter(|&moment| moment <= Instant::now());
        if late.is_some() && self.is_answered() {
            self.discard(late);
            self.last = Ended::TimedOut;
        }
    }

    /// Discard the response that the last attempt got, and read its body until this moment
    /// at most.
    pub fn discard(&mut self, until: Option<Instant>) {
        let ctx = self.fetch.ctx;
        let Some((native, earlier, _held)) = served(ctx).filter(|_| self.is_answered()) else {
            return;
        };
        drain::or_close(self.fetch, until);
        let bytes = bytes::difference(self.fetch.raw().acct, &earlier);
        bytes::set(self.fetch, bytes);
        // SAFETY: the attempt was answered, so a connection to the endpoint is open; it is
        // finished as varnishd itself does after a response.
        unsafe { finish_native(ctx, native) };
        self.earlier = bytes::sum(self.earlier, &bytes);
        self.restore();
        self.last = Ended::Broken;
    }

    /// Have the body of the response fail at this moment.
    pub fn limit_body(&mut self, until: Instant) {
        if self.is_answered() {
            body_deadline::set(self.fetch, until);
        }
    }

    /// Whether the request can be sent once more: its body, if any, is still there.
    pub fn can_repeat(&self) -> bool {
        self.fetch.raw().no_retry.is_null()
    }

    /// End without a response. varnishd puts status and reason into beresp for
    /// `vcl_backend_error`.
    pub fn give_up(mut self, time_is_up: bool) {
        if self.is_answered() {
            self.discard(None);
        }
        let (status, reason): (u16, &'static CStr) = match self.last {
            _ if time_is_up => (504, c"Request timed out"),
            Ended::TimedOut | Ended::Unreachable => (504, c"Endpoint timed out"),
            Ended::Broken | Ended::Answered(_) => (502, c"Endpoint closed the connection"),
            Ended::Unsent => (503, c"No endpoint accepts connections"),
        };
        bytes::set(self.fetch, self.earlier);
        self.fetch.set_error(status, reason);
    }

    fn is_answered(&self) -> bool {
        !self.fetch.raw().htc.is_null()
    }

    /// Restore the busyobj after an attempt, in the order of varnishd's own start of a fetch.
    fn restore(&mut self) {
        let bo = self.fetch.bo();
        // SAFETY: the busyobj is this thread's. No connection is open any more, and nothing
        // refers to what the attempt put on the workspace: this value borrows the fetch.
        unsafe {
            let vfc = (*bo).vfc;
            let object = (*vfc).oc;
            self.earlier.beresp_bodybytes += sys::VFP_Close(vfc);
            sys::VFP_Setup(vfc, (*bo).wrk);
            (*vfc).oc = object;
            (*vfc).resp = (*bo).beresp;
            (*vfc).req = (*bo).bereq;
            let workspace = workspace_of(bo);
            let log = (&raw mut (*bo).vsl).cast();
            sys::HTTP_Setup((*bo).beresp, workspace, log, sys::SLT_BerespMethod);
            (*(*bo).bereq).nhd = self.bereq_length;
            sys::WS_Reset(workspace, self.workspace);
        }
    }
}
