#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! Compiled types bear the name of the [`wire`] type that they are compiled from:
//! [`wire::Route`] becomes [`Route`], [`wire::Match`] becomes [`Match`].
//!
//! | Module | Contents |
//! |---|---|
//! | [`wire`] | routing configuration as JSON |
//! | [`route`], [`mod@matches`], [`pattern`] | routes, compiled from it |
//! | [`request`], [`host`], [`target`] | what the router reads from a request |
//! | [`router`] | the index of all routes, and lookups |
//! | [`router::precedence`] | conflict rules, with an example of each |
//! | [`router::explain`] | why a rule serves a request, and why the others do not |
//! | [`filters`], [`redirect`], [`rewrite`], [`cors`] | what the filters of a rule change |
//! | [`budget`], [`steps`] | how much work a route and a request may cause |
//! | [`backends`], [`timing`] | weighted choice, timeouts and retries |
//! | [`cache`] | what to store and what to answer from it, with reasons |
//! | [`cdn_loop`], [`forwarding`] | detection of loops, headers of proxies in front |
//! | [`shares`] | how many workers and connections each may hold |
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![deny(
    rustdoc::bare_urls,
    rustdoc::broken_intra_doc_links,
    rustdoc::invalid_codeblock_attributes,
    rustdoc::invalid_html_tags,
    rustdoc::private_intra_doc_links,
    rustdoc::unescaped_backticks
)]

pub mod backends;
pub mod cache;
pub mod cdn_loop;
pub mod cors;
pub mod filters;
pub mod forwarding;
pub mod host;
pub mod matches;
pub mod pattern;
mod query;
pub mod redirect;
pub mod request;
pub mod rewrite;
pub mod route;
pub mod router;
pub mod shares;
pub mod steps;
pub mod target;
pub mod timing;
pub mod wire;

pub use backends::{Backend, BackendTarget, Backends};
pub use cors::Cors;
pub use filters::{Filters, HeaderLine, HeaderModifier};
pub use host::Host;
pub use matches::{Match, MatchError, MatchField, PathPattern, ValueMatch, ValuePattern};
pub use pattern::{budget, Pattern, PatternError};
pub use request::{is_tunnel_request, join_values, OwnedRequest, Request, RequestError};
pub use route::{Action, Route, RouteError, Rule};
pub use router::explain::{Considered, Explanation, Loss, RunnerUp, Unmet};
pub use router::precedence::Criterion;
pub use router::{Found, Router};
pub use steps::{OverBudget, Steps};
pub use timing::{is_idempotent, Retry, Timeouts};
