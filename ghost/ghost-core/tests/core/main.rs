//! Tests of ghost-core through its public API. One program, so that it links once.
// A test fails by panicking, also in shared functions.
#![allow(clippy::unwrap_used, clippy::panic)]

mod backends;
mod budgets;
mod cache;
mod cors;
mod explain;
mod filters;
mod matching;
mod oracle;
mod pattern;
mod request;
mod route;
mod router;
mod support;
mod timing;
mod wire;
