//! Whether a request asks for an invalidation, and may: PURGE, BAN and PURGEKEYS.

use ghost_core::cache::methods::Method;

use super::loops;
use crate::config::Requests;
use crate::varnish::Http;

/// What such a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purging {
    /// A request like others.
    No,
    /// It may not ask for that.
    Denied,
    /// It is carried out.
    Allowed,
}

/// Judge a request, by its client's address as the gateway believes it. One that a gateway has
/// forwarded has the address of the gateway, whoever its client is.
pub fn judge(http: &Http<'_>, rules: &Requests) -> Purging {
    if rules.purgers.is_empty() || Method::parse(http.method()).is_none() {
        return Purging::No;
    }
    let list = http.header(b"x-forwarded-for").unwrap_or(b"");
    if rules.purgers.includes(rules.proxies.client(list)) && !loops::has_passed(http) {
        Purging::Allowed
    } else {
        Purging::Denied
    }
}
