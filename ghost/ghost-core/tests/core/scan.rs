//! The oracle: the Gateway API's rules of matching, read from their text, as a plain scan
//! over everything. It shares no code with the router.

use std::cmp::Reverse;

use ghost_core::wire::{Listener, Match, PathMatchType, Route, ValueMatch, ValueMatchType};

use crate::request::Ask;

/// Identity of the rule that must serve, and the index of its match.
pub(crate) fn scan(listeners: &[Listener], routes: &[Route], ask: &Ask) -> Option<(String, usize)> {
    let listener = listener(listeners, ask)?;
    let mut best = None;
    for route in routes {
        let hostnames = route
            .attachments
            .iter()
            .filter(|to| to.listener == listener.name)
            .flat_map(|to| &to.hostnames);
        let Some(host_rank) = hostnames.filter_map(|name| host_rank(name, &ask.host)).min() else {
            continue;
        };
        // The same route may be there by a hostname that is less specific, but then its
        // rules are the same ones.
        for (rule_index, rule) in route.rules.iter().enumerate() {
            for (match_index, matched) in rule.matches.iter().enumerate() {
                if !holds(matched, ask) {
                    continue;
                }
                let rank = (
                    host_rank,
                    path_rank(matched),
                    matched.method.is_none(),
                    Reverse(matched.headers.len()),
                    Reverse(matched.query.len()),
                    route.created,
                    format!("{}/{}", route.namespace, route.name),
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
    best.map(|(rank, identity)| (format!("{}/{identity}", rank.6), rank.8))
}

fn listener<'a>(listeners: &'a [Listener], ask: &Ask) -> Option<&'a Listener> {
    let named = listeners.iter().any(|listener| listener.socket == ask.socket);
    let socket = if named { ask.socket.as_str() } else { "*" };
    listeners
        .iter()
        .filter(|listener| listener.socket == socket)
        .filter_map(|listener| Some((host_rank(&listener.hostname, &ask.host)?, listener)))
        .min_by_key(|(rank, _)| *rank)
        .map(|(_, listener)| listener)
}

/// What the text of the listener's hostname says about requests on connections of others.
pub(crate) fn is_misdirected(
    listeners: &[Listener],
    socket: &str,
    server_name: &str,
    host: &str,
) -> bool {
    let best = |host: &str| listener(listeners, &Ask::get(host, "/").socket(socket));
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

/// Smaller is more specific; None if the hostname does not take the host.
fn host_rank(hostname: &str, host: &str) -> Option<(u8, Reverse<usize>)> {
    if hostname == "*" {
        Some((2, Reverse(0)))
    } else if let Some(suffix) = hostname.strip_prefix('*') {
        (host.ends_with(suffix) && host.len() > suffix.len()).then_some((1, Reverse(suffix.len())))
    } else {
        (hostname == host).then_some((0, Reverse(0)))
    }
}

fn path_rank(matched: &Match) -> (u8, Reverse<usize>) {
    match matched.path.r#type {
        PathMatchType::Exact => (0, Reverse(0)),
        PathMatchType::Prefix => (1, Reverse(matched.path.value.len())),
        PathMatchType::Regex => (2, Reverse(0)),
    }
}

fn holds(matched: &Match, ask: &Ask) -> bool {
    let (path, query) = ask.target.split_once('?').unwrap_or((&ask.target, ""));
    path_holds(matched, path)
        && matched.method.as_ref().is_none_or(|method| *method == ask.method)
        && matched.headers.iter().all(|header| {
            let values: Vec<_> = ask
                .headers
                .iter()
                .filter(|(name, _)| *name == header.name)
                .map(|(_, value)| String::from_utf8(value.clone()).unwrap())
                .collect();
            !values.is_empty() && value_holds(header, &values.join(","))
        })
        && matched.query.iter().all(|parameter| {
            let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
            pairs
                .find(|(name, _)| *name == parameter.name)
                .is_some_and(|(_, value)| value_holds(parameter, value))
        })
}

fn path_holds(matched: &Match, path: &str) -> bool {
    let value = matched.path.value.as_str();
    match matched.path.r#type {
        PathMatchType::Exact => path == value,
        PathMatchType::Prefix => {
            let wanted: Vec<_> = value.split('/').filter(|_| value != "/").collect();
            let given: Vec<_> = path.split('/').collect();
            given.starts_with(&wanted)
        }
        PathMatchType::Regex => whole_regex(value, path),
    }
}

fn value_holds(wanted: &ValueMatch, value: &str) -> bool {
    match wanted.r#type {
        ValueMatchType::Exact => wanted.value == value,
        ValueMatchType::Regex => whole_regex(&wanted.value, value),
    }
}

fn whole_regex(pattern: &str, value: &str) -> bool {
    regex::Regex::new(&format!("^(?:{pattern})$")).unwrap().is_match(value)
}
