//! The Host of a request.
//!
//! In:  the header's value.
//! Out: [`Host`]: lower case, without port and one trailing dot; or [`Malformed`], which a
//!      proxy answers with 400.
//!
//! ```
//! use ghost_core::{host::Malformed, Host};
//!
//! assert_eq!(&*Host::parse(b"WWW.Example.com.:8080")?, b"www.example.com");
//! assert_eq!(&*Host::parse(b"[2001:DB8::1]:443")?, b"[2001:db8::1]");
//! assert_eq!(Host::parse(b"user@example.com").unwrap_err(), Malformed);
//! # Ok::<(), Malformed>(())
//! ```

use std::fmt;
use std::ops::Deref;

/// Longest host name, without the trailing dot.
const MAX_LENGTH: usize = 253;

/// A normalised host, stored on the stack.
#[derive(Clone)]
pub struct Host {
    bytes: [u8; MAX_LENGTH],
    length: u8,
}

/// The Host header is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed Host")
    }
}

impl std::error::Error for Malformed {}

impl Host {
    /// Parse a Host header: a name, an IPv4 address or an IPv6 address in brackets, with an
    /// optional port. An empty header is the empty host, which only the hostname "*"
    /// matches.
    ///
    /// # Errors
    /// The name has a character that host names do not have or is longer than 253 bytes, or
    /// the port is not a number up to 65535.
    pub fn parse(header: &[u8]) -> Result<Self, Malformed> {
        let (name, port) = split_port(header)?;
        let name = name.strip_suffix(b".").unwrap_or(name);
        if !is_port(port) || name.len() > MAX_LENGTH || !is_name(name, header) {
            return Err(Malformed);
        }
        let mut bytes = [0; MAX_LENGTH];
        for (to, from) in bytes.iter_mut().zip(name) {
            *to = from.to_ascii_lowercase();
        }
        let length = u8::try_from(name.len()).map_err(|_| Malformed)?;
        Ok(Self { bytes, length })
    }
}

impl Deref for Host {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Host({:?})", String::from_utf8_lossy(self))
    }
}

/// Name and port; the port is empty where there is none.
fn split_port(header: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let end = match header {
        [b'[', ..] => 1 + header.iter().position(|&byte| byte == b']').ok_or(Malformed)?,
        _ => header.iter().position(|&byte| byte == b':').unwrap_or(header.len()),
    };
    match &header[end..] {
        [] => Ok((&header[..end], b"")),
        [b':', port @ ..] => Ok((&header[..end], port)),
        _ => Err(Malformed),
    }
}

/// Digits up to 65535, or nothing.
fn is_port(port: &[u8]) -> bool {
    let number = std::str::from_utf8(port).map(str::parse::<u16>);
    port.is_empty() || (port.iter().all(u8::is_ascii_digit) && matches!(number, Ok(Ok(_))))
}

fn is_name(name: &[u8], header: &[u8]) -> bool {
    match name {
        [] => header.is_empty(),
        [b'[', address @ .., b']'] => std::str::from_utf8(address)
            .is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok()),
        _ => has_labels(name),
    }
}

/// Whether dots separate labels, none of which is empty. Host names must not have
/// underscores, yet they are common.
fn has_labels(name: &[u8]) -> bool {
    let mut before = b'.';
    for &byte in name {
        let fits = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if !fits && (byte != b'.' || before == b'.') {
            return false;
        }
        before = byte;
    }
    before != b'.'
}
