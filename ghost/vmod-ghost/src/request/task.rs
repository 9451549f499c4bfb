//! What ghost remembers about a client's request.

use std::borrow::Cow;
use std::sync::Arc;

use super::websocket::Expected;
use crate::config::Entry;
use crate::varnish::{Slot, Task};

/// What `recv()` found for a request.
#[derive(Default)]
pub enum Outcome {
    /// Nothing, or `recv()` was not called yet.
    #[default]
    Unrouted,
    /// A rule, by this match of it.
    Routed(Arc<Entry>, usize),
    /// A rule, whose CORS answers the request.
    Preflight(Arc<Entry>),
    /// A rule, but the request has passed this gateway too often.
    Loop(Arc<Entry>),
    /// The request is for ghost itself.
    Admin,
}

/// About a client's request.
#[derive(Default)]
pub struct ClientTask {
    /// What `recv()` found.
    pub outcome: Outcome,
    /// Whether the client speaks TLS.
    pub tls: bool,
    /// The upgrade that the client waits for.
    pub upgrade: Option<Expected>,
    /// A digest of the URL, Host and method that `recv()` left.
    pub digest: u64,
}

impl Task for ClientTask {
    fn slot() -> &'static Slot<Self> {
        static SLOT: Slot<ClientTask> = Slot::new(c"ghost client task");
        &SLOT
    }
}

impl ClientTask {
    /// Whether the request is for ghost itself.
    pub fn is_admin(&self) -> bool {
        matches!(self.outcome, Outcome::Admin)
    }

    /// What the cache key says about the rule and the scheme.
    pub fn cache_key(&self) -> (Cow<'_, str>, &'static str) {
        let rule = match &self.outcome {
            Outcome::Routed(entry, match_index) => entry.identity(*match_index),
            Outcome::Preflight(_) => "preflight".into(),
            Outcome::Loop(_) => "loop".into(),
            Outcome::Unrouted | Outcome::Admin => "".into(),
        };
        (rule, if self.tls { "+tls" } else { "" })
    }
}
