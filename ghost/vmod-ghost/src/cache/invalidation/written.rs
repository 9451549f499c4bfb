//! What a successful unsafe request invalidates (RFC 9111, section 4.4).
//!
//! The RFC has a cache remove such responses, or validate them before any use: so they are
//! removed. Only objects of the namespace whose route has answered are: listeners may have a host in
//! common, and a tenant must not empty the cache of another one.

use ghost_core::cache::index::{Mode, Scope};
use ghost_core::cache::invalidation::{is_safe, targets, Base};
use ghost_core::cache::key;
use ghost_core::shares::namespace_of;
use ghost_core::target::PathRules;
use ghost_core::Host;

use super::index;
use crate::fetch::FetchTask;
use crate::request::Synthetic;
use crate::varnish::Fetch;

/// The response to a request is here.
pub fn invalidate(fetch: &Fetch<'_>, paths: &PathRules) {
    if !index::is_used() {
        return;
    }
    let (Some(request), Some(response)) = (fetch.original(), fetch.beresp()) else { return };
    let method = request.method();
    if is_safe(method) || fetch.is_served_by::<Synthetic>() {
        return;
    }
    let named = request.header(b"host").unwrap_or(b"");
    let Ok(host) = Host::parse(named) else { return };
    let https = request.header(b"x-forwarded-proto") == Some(b"https");
    let port = key::port(named, https).and_then(|port| std::str::from_utf8(port).ok());
    let port = port.and_then(|port| port.parse().ok()).unwrap_or(if https { 443 } else { 80 });
    let base = Base { https, host: &host, port, target: request.url() };
    let memory = fetch.recall::<FetchTask>();
    let route = memory.and_then(|memory| {
        let task = memory.get();
        task.target.as_ref().map(|target| target.rule.route.clone())
    });
    // Without a route, user VCL has chosen the backend, which serves all of them.
    let scope = route.as_deref().map_or(Scope::All, |route| Scope::Namespace(namespace_of(route)));
    let at = index::begin();
    for target in targets(method, &base, response.status(), &response) {
        if let Ok(merged) = paths.apply(&target) {
            index::invalidate_uri(&host, &merged, (Mode::Hard, scope), at);
        }
    }
}
