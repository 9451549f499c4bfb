//! Headers that clients must not send.

use crate::varnish::Client;

/// Beginnings of header lines that clients must not send, in lower case.
const RESERVED: [&[u8]; 3] = [b"x-ghost-", b"x-gateway-", b"x-forwarded-proto:"];

/// Remove what clients must not send, and what `recv` itself set before a restart. The copy
/// that a rollback returns to must not have it either.
pub fn remove(client: &Client<'_>) {
    for mut http in [client.req(), client.original()].into_iter().flatten() {
        http.retain(|line| !is_reserved(line));
    }
}

/// Whether clients must not send this header line.
pub fn is_reserved(line: &[u8]) -> bool {
    RESERVED.iter().any(|reserved| begins_with(line, reserved))
}

/// Some backends, such as those behind CGI, treat "_" like "-".
pub(super) fn begins_with(line: &[u8], reserved: &[u8]) -> bool {
    let same = |(sent, reserved): (&u8, &u8)| {
        sent.to_ascii_lowercase() == *reserved || (*sent, *reserved) == (b'_', b'-')
    };
    line.len() >= reserved.len() && line.iter().zip(reserved).all(same)
}
