//! Everything that touches varnishd's memory, behind an API that safe code can't misuse.
//!
//! This is the only part of the crate that may contain `unsafe`; the compiler denies it
//! elsewhere. varnishd calls ghost in six ways, and each has its place here:
//!
//! * a VCL calls a function of the VMOD: [`entry`];
//! * varnishd loads, warms, cools or discards a VCL: [`event`];
//! * varnishd calls a method of a director that ghost added: [`director`], [`pool`] and
//!   [`synthetic`], which hand the call to a trait that safe code implements;
//! * varnishd pulls a response body through a processor: [`processor`];
//! * varnishd looks a key up, and asks ghost about each object that has it: [`cache`];
//! * varnishd says that an object has become visible, or is gone: [`cache`].
//!
//! # What the wrappers rely on
//!
//! 1. *A call is the unit of time.* Everything that varnishd passes stays valid until the
//!    call returns. [`Client`], [`Fetch`], [`Http`] and [`Backend`] carry that lifetime, and
//!    they hold raw pointers, so that no other thread can use them.
//! 2. *Workspace memory is written once.* Headers point into a workspace, and an edit
//!    allocates instead of overwriting. Only [`Attempts`] gives workspace back; it borrows
//!    the [`Fetch`] exclusively, so that no header value outlives the memory behind it.
//! 3. *A task's memory is shared, not aliased.* [`task::Memory`] sits behind a `RefCell`.
//! 4. *A director belongs to a warm VCL.* Every [`Director`] knows its [`Vcl`]; ghost uses one
//!    only in a call of that same VCL, and releases it only while that VCL is warm. varnishd
//!    asserts that none is left when it discards a VCL: ghost drops them all in the event in
//!    which the VCL becomes cold, when no task of that VCL exists any more.
//! 5. *varnishd references what ghost returns only after the return.* [`Held`] keeps the
//!    owner of a returned director in the memory of the task.
//! 6. *Nothing unwinds into C.* Every callback runs inside [`fence::fence`].

mod cache;
mod client;
mod director;
mod entry;
mod event;
mod fence;
mod fetch;
mod http;
mod identity;
mod parameters;
mod pool;
mod processor;
mod publish;
mod session;
mod synthetic;
mod sys;
mod task;
mod vcl;
mod workspace;

pub use cache::{
    forms, has_index, hold_shape, index_usage, invalidate, unused_times, Arrival, Choose, Fate,
    Object, Times, Verdict,
};
pub use client::{Client, SendTimeouts};
pub use director::group::{Ask, Group, Tally};
pub use director::held::{Backend, Held, Returned};
pub use director::resolve::Resolve;
pub use director::{Director, Kind, Methods, Refused};
#[cfg(feature = "test-panic")]
pub use fence::hold;
pub use fence::panic_message;
pub use fetch::Fetch;
pub use http::{value_of, Http, OutOfWorkspace};
pub use parameters::{most_threads, workers_for_requests};
pub use pool::attempts::{Attempts, Ended};
pub use pool::kept_body::{keep as keep_body, usual_time as usual_body_time};
pub use pool::native::Native;
pub use pool::statistics::Statistics;
pub use pool::timeouts::Limit;
pub use pool::tunnel::Tunnel;
pub use pool::{Balance, LINES_OF_VARNISHD};
pub use synthetic::request::Unread;
pub use synthetic::{Respond, Response};
pub use task::{Memory, Slot, Task};
pub use vcl::Vcl;
