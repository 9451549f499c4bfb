//! The request that the origin of a cached rule gets.

use std::sync::Arc;

use ghost_core::cache::invalidation::is_safe;
use ghost_core::cache::key;
use ghost_core::cache::poisoning::{keyed_cookies, treatment, Treatment};
use ghost_core::cache::{Policy, RequestDirectives, StoreRequest};
use ghost_core::{target, Host, OverBudget, Rule, Steps};

use super::culprits::Requester;
use super::invalidation::Subject;
use super::policy::{effective, Prepared};
use crate::config::Instance;
use crate::failure::Failure;
use crate::varnish::{Fetch, Held, Http, OutOfWorkspace};

/// Take from a request what is neither in the key nor harmless, before the filters of its rule
/// apply. None if no policy applies; the error in the backend's stead if that takes too many
/// steps, because user VCL has changed the query since the request got its key.
pub fn prepare(
    fetch: &Fetch<'_>,
    instance: &Instance,
    rule: &Rule,
    bereq: &mut Http<'_>,
) -> Result<Result<Option<Prepared>, Held>, Failure> {
    let Some(policy) = policy(fetch, instance, rule)? else { return Ok(Ok(None)) };
    let snapshot = instance.snapshot();
    let snapshot = snapshot.as_ref().ok_or(Failure::NotLoaded)?;
    remove_unkeyed(&policy, bereq)?;
    if let Err(part) = remove_unkeyed_parameters(&policy, bereq)? {
        fetch.log(b"ghost-store:over-budget");
        return Ok(Err(snapshot.reject_over_budget(part)));
    }
    normalise_host(bereq)?;
    let request = StoreRequest::new(&policy, bereq.method(), &*bereq);
    let original = fetch.original();
    let proxies = &snapshot.requests.proxies;
    let requester = Requester::of(original.as_ref().unwrap_or(bereq), proxies);
    let subject = Arc::new(Subject::of(fetch, &policy, rule));
    Ok(Ok(Some(Prepared { policy, request, subject, requester })))
}

/// Whether the client of a request that bypasses the cache wants nothing but a stored response
/// (RFC 9111, section 5.2.1.7). Unsafe requests reach the origin whatever their clients want
/// (section 4).
pub fn wants_only_cached(
    fetch: &Fetch<'_>,
    instance: &Instance,
    rule: &Rule,
    bereq: &Http<'_>,
) -> Result<bool, Failure> {
    let asks = is_safe(bereq.method()) && bereq.header(b"cache-control").is_some();
    if !asks || !RequestDirectives::parse(bereq).only_if_cached {
        return Ok(false);
    }
    let policy = policy(fetch, instance, rule)?;
    Ok(policy.is_some_and(|policy| policy.honours_requests))
}

fn policy(
    fetch: &Fetch<'_>,
    instance: &Instance,
    rule: &Rule,
) -> Result<Option<Arc<Policy>>, Failure> {
    let snapshot = instance.snapshot();
    let snapshot = snapshot.as_ref().ok_or(Failure::NotLoaded)?;
    let of_listener = || {
        // A filter of the rule may have changed the host of bereq, before a retry.
        let original = fetch.original();
        let host = original.as_ref().and_then(|original| original.header(b"host"));
        let host = host.and_then(|host| Host::parse(host).ok());
        let host: &[u8] = host.as_deref().unwrap_or(b"");
        let listener = snapshot.router.listener(&fetch.socket(), host)?;
        snapshot.listener_policies.get(listener.name.as_str())
    };
    Ok(effective(rule, of_listener, &snapshot.listener_policies))
}

/// One client must not decide what others receive.
fn remove_unkeyed(policy: &Policy, bereq: &mut Http<'_>) -> Result<(), OutOfWorkspace> {
    let mut keyed_cookies = false;
    bereq.retain(|line| {
        let name = line.split(|&byte| byte == b':').next().unwrap_or(line);
        match treatment(policy, name) {
            Treatment::Forward | Treatment::Keyed => true,
            Treatment::KeyedCookies => {
                keyed_cookies = true;
                true
            }
            Treatment::Remove => false,
        }
    });
    if keyed_cookies {
        keep_keyed_cookies(policy, bereq)?;
    }
    Ok(())
}

/// The same for query parameters. What decides is what decided about the key.
fn remove_unkeyed_parameters(
    policy: &Policy,
    bereq: &mut Http<'_>,
) -> Result<Result<(), OverBudget>, OutOfWorkspace> {
    let (path, query) = target::split(bereq.url());
    let Some(query) = query else { return Ok(Ok(())) };
    let mut kept = Vec::new();
    if let Err(part) = policy.key.query.write_forwarded(query, &Steps::of_fetch(), &mut kept) {
        return Ok(Err(part));
    }
    if kept != query && pairs(query) != pairs(&kept) {
        let query = (!kept.is_empty()).then_some(kept.as_slice());
        bereq.set_url(&target::join(path.to_vec(), query))?;
    }
    Ok(Ok(()))
}

/// The origin gets the Host that is in the key: an upper case letter or a final dot could have
/// it redirect everybody to where they are.
fn normalise_host(bereq: &mut Http<'_>) -> Result<(), OutOfWorkspace> {
    let Some(host) = bereq.header(b"host") else { return Ok(()) };
    let Ok(normal) = Host::parse(host) else { return Ok(()) };
    let mut text = normal.to_vec();
    // Ports of either scheme are left out; another one is in the key.
    if let Some(port) = key::port(host, false).filter(|port| *port != b"443") {
        text.push(b':');
        text.extend_from_slice(port);
    }
    if text == host {
        return Ok(());
    }
    bereq.set("Host", &text)
}

/// How many parameters a query has.
fn pairs(query: &[u8]) -> usize {
    query.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty()).count()
}

fn keep_keyed_cookies(policy: &Policy, bereq: &mut Http<'_>) -> Result<(), OutOfWorkspace> {
    let kept = keyed_cookies(policy, &*bereq);
    bereq.remove(b"cookie");
    if kept.is_empty() {
        return Ok(());
    }
    bereq.append(&[b"Cookie: ", &kept])
}
