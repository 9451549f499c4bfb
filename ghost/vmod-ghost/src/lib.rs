//! The VMOD `ghost`: routes requests inside varnishd.
//!
//! `vcl` is the boundary that VCL calls. `routing` and `exchange` do what it asks, with
//! what `instance` holds for the VCL: a router, and directors of four kinds (`rule`,
//! `pool`, `native`, `synthetic`). `store` and `shard` hold what is loaded for the whole
//! process. `fence`, `http`, `director` and `task` are the ground: every other module is
//! built on them and on the bindings in `sys`.
// A cdylib exports C symbols only: `pub` says what is for other modules.
#![allow(unreachable_pub)]

mod answers;
mod attempt;
mod counters;
mod course;
mod director;
mod drain;
mod exchange;
mod failure;
mod fence;
mod group;
mod http;
mod instance;
mod live;
mod native;
mod order;
mod patience;
mod pause;
mod pool;
mod processor;
mod proxy;
mod publish;
mod random;
mod retirement;
mod routing;
mod rule;
mod shard;
mod statistics;
mod store;
mod synthetic;
mod sys;
mod task;
mod tasks;
mod vcl;
