//! The router of Varnish Gateway.
//!
//! In:  configuration as [`wire`] types, and requests behind the trait [`Request`].
//! Out: the rule that serves a request ([`Router::find`]), why ([`Router::explain`]), and
//!      the arithmetic of its filters ([`redirect`], [`rewrite`], [`HeaderModifier`]).
//!
//! Nothing here does I/O or knows Varnish or Python. A [`Router`] is persistent: a clone is
//! cheap, and a change copies the path to what it changes, not the index. Looking up does
//! not allocate in the common case.
#![forbid(unsafe_code)]

mod backends;
pub mod cors;
mod filters;
pub mod host;
mod matches;
mod pattern;
mod query;
pub mod redirect;
mod request;
pub mod rewrite;
mod route;
mod router;
pub mod target;
mod timing;
pub mod wire;

pub use backends::{Backend, BackendTarget, Backends};
pub use cors::Cors;
pub use filters::{Filters, HeaderLine, HeaderModifier};
pub use host::Host;
pub use matches::{Match, PathPattern, ValueMatch, ValuePattern};
pub use pattern::{validate_regex, Pattern, PatternError};
pub use request::{is_tunnel_request, join_values, Request};
pub use route::{Action, Route, RouteError, Rule};
pub use router::{Considered, Criterion, Explanation, Found, Loss, Router, RunnerUp, Unmet};
pub use timing::{is_idempotent, Retry, Timeouts};
