//! The decisions of an HTTP cache, each with its reason.
//!
//! In:  a [`Policy`], heads of requests and responses, and the time as an argument.
//! Out: what to store and for how long, what to answer from the store, and why. Every reason
//!      has a word that never changes and a sentence that names the RFC or the policy's field.
//!
//! The decisions read no clock, draw no random number, and hold no objects: a proxy and the
//! tool that explains it call the same code. Only the [`index`] has a state, and a random key for
//! its hashes. The module follows RFC 9111, with RFC 5861, 8246, 9211, 9213 and 9875. Where
//! these leave a choice, the module in question has a table.
//!
//! | Module | Contents |
//! |---|---|
//! | [`policy`] | a policy, compiled; which requests pass the cache |
//! | [`key`] | which requests get the same response |
//! | [`directives`] | Cache-Control and the fields beside it |
//! | [`age`], [`freshness`] | how old a response is, and for how long it is fresh |
//! | [`store`] | whether a response is stored |
//! | [`record`], [`requested`] | what a stored response remembers of that decision, and of its request |
//! | [`lookup`] | whether a stored response answers a request |
//! | [`vary`], [`conditional`] | which stored response fits, and with what status |
//! | [`invalidation`], [`purge`], [`methods`], [`tags`] | what makes stored responses stale |
//! | [`index`] | which objects an invalidation concerns |
//! | [`poisoning`] | what an origin must not read |
//! | [`content`] | what may be done to a body |
//! | [`status`] | the field Cache-Status |
//! | [`syntax`], [`headers`] | what header fields are made of |
//!
//! Decide about storing a response, and a minute later about answering from it:
//!
//! ```
//! use std::time::Duration;
//!
//! use ghost_core::cache::lookup::{Advice, Budget, Candidate, Lookup};
//! use ghost_core::cache::{
//!     lookup, store, Exchange, Outcome, Policy, RequestDirectives, Response, StoreRequest, Survey,
//!     Timestamp,
//! };
//! use ghost_core::wire::{self, CachePolicy};
//! use ghost_core::Steps;
//!
//! let policy: CachePolicy = wire::decode(br#"{"name": "shop/pages", "defaultTTL": 30000}"#)?;
//! let policy = Policy::compile(&policy)?;
//!
//! // GET / on a Sunday in 1994. The origin answered at once, and states no lifetime.
//! let now = Timestamp::from_seconds(784_111_777);
//! let times = Exchange { requested: now, received: now };
//! let request = [("Host", &b"tea.example.com"[..])];
//! let survey = Survey::of([(&b"Host"[..], &b"tea.example.com"[..])]);
//! assert_eq!(policy.bypass_reason(b"GET", survey, &request, &Steps::of_request())?, None);
//! let headers = [("ETag", &br#""v1""#[..]), ("Cache-Control", b"stale-while-revalidate=60")];
//! let response = Response { status: 200, headers: &headers };
//! let facts = StoreRequest::new(&policy, b"GET", &request);
//! let Outcome::Stored(stored) = store::decide(&policy, facts, &response, times, 0) else {
//!     panic!("it is stored");
//! };
//! assert_eq!(stored.lifetime, Duration::from_secs(30));
//! assert_eq!(
//!     stored.reason.to_string(),
//!     "the origin states no lifetime, so that the policy's defaultTTL applies"
//! );
//!
//! let object = Candidate::from(&stored);
//! let advice = Advice { asked: RequestDirectives::parse(&request), budget: Budget::Available };
//! let Lookup::StaleHit { reason, refresh: true } =
//!     lookup::decide(&advice, Some(&object), now.plus(Duration::from_secs(60)))
//! else {
//!     panic!("it is stale, and the origin allows a minute of that");
//! };
//! assert_eq!(reason.name(), "stale-while-revalidate");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod age;
pub mod conditional;
pub mod content;
pub mod directives;
pub mod freshness;
pub mod headers;
pub mod index;
pub mod invalidation;
pub mod key;
pub mod lookup;
pub mod poisoning;
pub mod policy;
pub mod purge;
pub mod record;
pub mod requested;
pub mod status;
pub mod store;
pub mod syntax;
pub mod tags;
mod time;
pub mod vary;

pub use age::Exchange;
pub use directives::{RequestDirectives, ResponseDirectives, Restriction, Seconds};
pub use freshness::LifetimeReason;
pub use headers::Headers;
pub use key::{KeyPolicy, KeyRequest};
pub use lookup::RevalidateReason;
pub use policy::{Attached, BypassReason, Policy, PolicyError, Survey};
pub use store::{NotStored, NotStoredReason, Outcome, Response, StoreRequest, Stored};
pub use time::{Timestamp, FOREVER};
