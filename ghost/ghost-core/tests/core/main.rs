//! Tests of ghost-core, through its public face. One program, so that it links once.
// A test fails by panicking, in what its functions share too.
#![allow(clippy::unwrap_used, clippy::panic)]

mod backends;
mod cors;
mod explain;
mod filters;
mod host;
mod matching;
mod pattern;
mod request;
mod router;
mod scan;
mod target;
mod timing;
mod wire;
