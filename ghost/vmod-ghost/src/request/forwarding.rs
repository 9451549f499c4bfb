//! Forwarding headers: what a request says about its client, if a trusted proxy says so.
//!
//! varnishd has appended the address of the peer to X-Forwarded-For. Which headers of proxies
//! before the peer remain is one decision for all of them: [`TrustedProxies::believed`].

use std::borrow::Cow;

use ghost_core::forwarding::{last_members, TrustedProxies};
use ghost_core::join_values;

use super::reserved::begins_with;
use super::survey::Survey;
use super::task::ClientTask;
use crate::varnish::{Client, Http, OutOfWorkspace};

/// Remove what no trusted proxy has written. Returns whether the client uses TLS: its
/// connection to this gateway does, or a trusted proxy says so.
pub fn sanitise(
    client: &Client<'_>,
    http: &mut Http<'_>,
    survey: Survey,
    proxies: &TrustedProxies,
    connection_is_tls: bool,
) -> Result<bool, OutOfWorkspace> {
    // varnishd appends the peer once. A restart has what is sanitised already.
    if let Some(memory) = client.recall::<ClientTask>() {
        return Ok(memory.get().tls);
    }
    // ESI begins with a copy of the request that includes it, as it came in: what is sanitised in
    // the request is sanitised in the original, too. varnishd appends the peer to each copy.
    if !client.is_top() {
        let tls = client.read_of_top(|task: &ClientTask| task.tls);
        return Ok(tls.unwrap_or(connection_is_tls));
    }
    let mut original = client.original();
    if !proxies.are_configured() {
        if survey.forwarded {
            http.remove(b"forwarded");
            if let Some(original) = &mut original {
                original.remove(b"forwarded");
            }
        }
        return Ok(connection_is_tls);
    }
    let list = http.header(b"x-forwarded-for").unwrap_or(b"");
    let peer = last_members(list, 1);
    let received = list[..list.len() - peer.len()].trim_ascii_end();
    let received = received.strip_suffix(b",").unwrap_or(received);
    match proxies.believed(received, peer) {
        0 => {
            remove_all(http);
            original.iter_mut().for_each(remove_all);
            http.append(&[b"X-Forwarded-For: ", peer])?;
            Ok(connection_is_tls)
        }
        count => {
            let tls = scheme(http).unwrap_or(connection_is_tls);
            let kept = last_members(received, count);
            if kept.len() < received.len() {
                http.set("X-Forwarded-For", &[kept, b", ", peer].concat())?;
                if let Some(original) = &mut original {
                    original.set("X-Forwarded-For", kept)?;
                }
            }
            if let Some(original) = &mut original {
                extend_forwarded(original, count, peer, tls)?;
            }
            extend_forwarded(http, count, peer, tls)?;
            Ok(tls)
        }
    }
}

fn remove_all(head: &mut Http<'_>) {
    head.remove(b"forwarded");
    head.retain(|line| !begins_with(line, b"x-forwarded-"));
}

/// Whether X-Forwarded-Proto says https; None if it says nothing that ghost understands.
fn scheme(http: &Http<'_>) -> Option<bool> {
    match last_members(http.header(b"x-forwarded-proto")?, 1) {
        b"https" => Some(true),
        b"http" => Some(false),
        _ => None,
    }
}

/// Keep the last elements of Forwarded and add that of this gateway. A header whose quotes
/// don't match can't be split: it is removed.
fn extend_forwarded(
    http: &mut Http<'_>,
    count: usize,
    peer: &[u8],
    tls: bool,
) -> Result<(), OutOfWorkspace> {
    let Some(all) = join_values(http.values(b"forwarded")).map(Cow::into_owned) else {
        return Ok(());
    };
    http.remove(b"forwarded");
    let between_quotes = all.split(|&byte| byte == b'"').count();
    if between_quotes % 2 == 0 {
        return Ok(());
    }
    let (open, close): (&[u8], &[u8]) =
        if peer.contains(&b':') { (b"\"[", b"]\"") } else { (b"", b"") };
    let scheme: &[u8] = if tls { b"https" } else { b"http" };
    let kept = last_members(&all, count);
    http.append(&[b"Forwarded: ", kept, b", for=", open, peer, close, b";proto=", scheme])
}
