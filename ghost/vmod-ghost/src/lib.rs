//! The VMOD `ghost`: routes requests inside varnishd.
//!
//! * [`varnish`] is the boundary: the functions that VCL calls, and safe wrappers around
//!   everything that belongs to varnishd. All `unsafe` code is there.
//! * [`config`] loads the configuration and builds directors from it.
//! * [`request`] is the client's side: it finds the rule, responds by itself where no
//!   backend is asked, and finishes the response on delivery.
//! * [`fetch`] is the backend's side: filters, deadlines and retries.
//! * [`cache`] carries out cache policies, on both sides.
//!
//! `varnish` calls the others from its entry points; nothing else in it knows them.
// A cdylib exports C symbols only: `pub` marks what other modules use.
#![allow(unreachable_pub)]
#![deny(unsafe_code)]

mod cache;
mod config;
mod failure;
mod fetch;
mod random;
mod request;
#[allow(unsafe_code)]
mod varnish;
