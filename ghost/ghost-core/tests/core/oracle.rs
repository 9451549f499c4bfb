//! The oracle: the precedence of the Gateway API, written from its text as a scan over all
//! routes. It shares no code with the router.

use std::cmp::Reverse;

use ghost_core::wire::{Listener, Match, PathMatchType, Route, ValueMatch, ValueMatchType};
use ghost_core::OwnedRequest;

/// A request as plain data.
#[derive(Clone, Debug)]
pub(crate) struct PlainRequest {
    pub(crate) socket: String,
    pub(crate) host: String,
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl PlainRequest {
    /// The same request in the form that the router reads.
    pub(crate) fn owned(&self) -> OwnedRequest {
        let request = OwnedRequest::new(&self.method, &self.host, &self.target).unwrap();
        let headers = self.headers.iter();
        headers.fold(request.with_socket(&self.socket), |request, (name, value)| {
            request.with_header(name, value.as_str())
        })
    }
}

/// The identity of the rule that must serve, and the index of its match.
pub(crate) fn scan(
    listeners: &[Listener],
    routes: &[Route],
    request: &PlainRequest,
) -> Option<(String, usize)> {
    let listener = listener(listeners, &request.socket, &request.host)?;
    let mut best = None;
    for route in routes {
        let hostnames = route
            .attachments
            .iter()
            .filter(|to| to.listener == listener.name)
            .flat_map(|to| &to.hostnames);
        let Some(host_rank) = hostnames.filter_map(|name| host_rank(name, &request.host)).min()
        else {
            continue;
        };
        // The route may also have a less specific hostname, but that has the same rules.
        for (rule_index, rule) in route.rules.iter().enumerate() {
            for (match_index, matched) in rule.matches.iter().enumerate() {
                if !matches(matched, request) {
                    continue;
                }
                let rank = (
                    host_rank,
                    path_rank(matched, rule.approximate || rule.status == Some(500)),
                    matched.method.is_none(),
                    Reverse(matched.headers.len()),
                    Reverse(matched.query.len()),
                    route.created,
                    format!("{}/{}", route.namespace, route.name),
                    rule.approximate,
                    rule_index,
                    match_index,
                );
                if best.as_ref().is_none_or(|(found, _)| rank < *found) {
                    let identity = rule.name.clone().unwrap_or_else(|| rule_index.to_string());
                    best = Some((rank, identity));
                }
            }
        }
    }
    best.map(|(rank, identity)| (format!("{}/{identity}", rank.6), rank.9))
}

fn listener<'a>(listeners: &'a [Listener], socket: &str, host: &str) -> Option<&'a Listener> {
    let named = listeners.iter().any(|listener| listener.socket == socket);
    let socket = if named { socket } else { "*" };
    listeners
        .iter()
        .filter(|listener| listener.socket == socket)
        .filter_map(|listener| Some((host_rank(&listener.hostname, host)?, listener)))
        .min_by_key(|(rank, _)| *rank)
        .map(|(_, listener)| listener)
}

/// Whether a host selects another listener than the server name of its connection.
pub(crate) fn is_misdirected(
    listeners: &[Listener],
    socket: &str,
    server_name: &str,
    host: &str,
) -> bool {
    let best = |host: &str| listener(listeners, socket, host);
    let Some(for_host) = best(host) else { return false };
    if server_name.is_empty() {
        return false;
    }
    let Some(current) = best(server_name) else { return true };
    match host_rank(&current.hostname, host) {
        None => true,
        Some(rank) => host_rank(&for_host.hostname, host).is_some_and(|other| other < rank),
    }
}

/// Smaller is more specific; None if the hostname does not match the host.
fn host_rank(hostname: &str, host: &str) -> Option<(u8, Reverse<usize>)> {
    if hostname == "*" {
        Some((2, Reverse(0)))
    } else if let Some(suffix) = hostname.strip_prefix('*') {
        (host.ends_with(suffix) && host.len() > suffix.len()).then_some((1, Reverse(suffix.len())))
    } else {
        (hostname == host).then_some((0, Reverse(0)))
    }
}

/// What is left of an invalid regular expression comes last, whatever it says.
fn path_rank(matched: &Match, approximate: bool) -> (u8, Reverse<usize>) {
    let kind = match matched.path.r#type {
        PathMatchType::Exact => return (0, Reverse(0)),
        PathMatchType::Regex if approximate => 3,
        PathMatchType::Regex => 1,
        PathMatchType::Prefix => 2,
    };
    (kind, Reverse(matched.path.value.len()))
}

fn matches(matched: &Match, request: &PlainRequest) -> bool {
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    path_matches(matched, path)
        && matched.method.as_ref().is_none_or(|method| *method == request.method)
        && matched.headers.iter().all(|header| {
            let values: Vec<_> = request
                .headers
                .iter()
                .filter(|(name, _)| *name == header.name)
                .map(|(_, value)| value.as_str())
                .collect();
            !values.is_empty() && value_matches(header, &values.join(","))
        })
        && matched.query.iter().all(|parameter| {
            let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
            pairs
                .find(|(name, _)| *name == parameter.name)
                .is_some_and(|(_, value)| value_matches(parameter, value))
        })
}

fn path_matches(matched: &Match, path: &str) -> bool {
    let value = matched.path.value.as_str();
    match matched.path.r#type {
        PathMatchType::Exact => path == value,
        PathMatchType::Prefix => {
            let expected: Vec<_> = value.split('/').filter(|_| value != "/").collect();
            let given: Vec<_> = path.split('/').collect();
            given.starts_with(&expected)
        }
        PathMatchType::Regex => whole_regex(value, path),
    }
}

fn value_matches(expected: &ValueMatch, value: &str) -> bool {
    match expected.r#type {
        ValueMatchType::Exact => expected.value == value,
        ValueMatchType::Regex => whole_regex(&expected.value, value),
    }
}

fn whole_regex(pattern: &str, value: &str) -> bool {
    regex::Regex::new(&format!("^(?:{pattern})$")).unwrap().is_match(value)
}
