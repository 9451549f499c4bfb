//! Requests that ask for an invalidation: PURGE, BAN and PURGEKEYS. Who may, and what answers.

use std::net::IpAddr;
use std::sync::Arc;

use ghost_core::cache::purge::methods::{self, Method};
use ghost_core::Action;

use super::loops;
use super::responses::Responses;
use super::task::{ClientTask, Outcome};
use crate::config::{Entry, Requests};
use crate::varnish::{Client, Director, Held, Http};

/// Whether the client of such a request may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purging {
    /// It may not.
    Denied,
    /// The request is carried out.
    Allowed,
}

/// Such a request, of a client that may ask.
#[derive(Clone, Copy, Debug)]
pub struct Ask(Method);

/// What such a request is for the router.
pub enum Judged {
    /// None of them.
    Other,
    /// Of a client that may not ask.
    Denied,
    /// Carried out.
    Allowed(Ask),
}

/// The first verdict about a request counts for all of it: VCL that changes X-Forwarded-For, or
/// that restarts, changes nothing about its client. None before it asks.
///
/// The list counts before VCL has seen the request. What a rollback brings back is what the client
/// wrote, and varnishd appends its address only once: the connection alone counts then.
pub fn judge(client: &Client<'_>, http: &Http<'_>, rules: &Requests) -> Option<Purging> {
    if rules.purgers.is_empty() {
        return None;
    }
    let memory = client.recall::<ClientTask>();
    if let Some(verdict) = memory.and_then(|memory| memory.get().purging) {
        return Some(verdict);
    }
    Method::parse(http.method())?;
    let is_untouched = memory.is_none() && client.is_top() && !client.is_restarted();
    let list = http.header(b"x-forwarded-for").filter(|_| is_untouched);
    Some(verdict(rules, client.address(), list, loops::has_passed(http)))
}

/// A request that a gateway has forwarded has the address of that gateway, not of its client.
fn verdict(
    rules: &Requests,
    peer: Option<IpAddr>,
    list: Option<&[u8]>,
    has_passed: bool,
) -> Purging {
    let address = peer.and_then(|peer| rules.proxies.proven_client(peer, list));
    if !has_passed && address.is_some_and(|address| rules.purgers.include(address)) {
        Purging::Allowed
    } else {
        Purging::Denied
    }
}

/// What a request is, by its method and the verdict about its client.
pub fn judged(http: &Http<'_>, verdict: Option<Purging>) -> Judged {
    match (verdict, Method::parse(http.method())) {
        (None, _) | (_, None) => Judged::Other,
        (Some(Purging::Denied), Some(_)) => Judged::Denied,
        (Some(Purging::Allowed), Some(method)) => Judged::Allowed(Ask(method)),
    }
}

impl Ask {
    /// Whether its path is an expression or a beginning, which must not become another one.
    pub fn needs_exact_path(self, http: &Http<'_>) -> bool {
        methods::reads_path_as_expression(self.0, http)
    }

    /// What answers it, given the rule to which its host and path lead.
    pub fn answer(self, entry: Arc<Entry>, responses: &Arc<Responses>) -> (Outcome, Held) {
        let responses = Arc::clone(responses);
        if forwards(&entry.target().rule.action) {
            let Self(method) = self;
            let director =
                Held::new(responses, |all: &Responses| -> &Director { all.purge(method) });
            return (Outcome::Purge(entry), director);
        }
        (Outcome::Unrouted, Held::new(responses, |all| &all.nothing_to_purge))
    }
}

/// Whether responses of backends may be stored for such a rule, now or before.
fn forwards(action: &Action) -> bool {
    match action {
        Action::Backends(_) => true,
        Action::Redirect(_) => false,
        // In place of backends that can't be used at the moment.
        Action::Status(status) => *status >= 500,
    }
}
