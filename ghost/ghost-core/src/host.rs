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
        let fits = name.len() <= MAX_LENGTH && is_port(port);
        let length = u8::try_from(name.len()).ok().filter(|_| fits).ok_or(Malformed)?;
        let mut host = Self { bytes: [0; MAX_LENGTH], length };
        let is_valid = match name {
            [] => header.is_empty(),
            [b'[', address @ .., b']'] => {
                host.bytes[..name.len()].copy_from_slice(name);
                host.bytes.make_ascii_lowercase();
                is_ipv6(address)
            }
            _ => copy_labels(name, &mut host.bytes),
        };
        // The host is large: this form has the compiler build it where the caller wants it.
        if is_valid {
            Ok(host)
        } else {
            Err(Malformed)
        }
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

fn is_ipv6(address: &[u8]) -> bool {
    let text = std::str::from_utf8(address);
    text.is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok())
}

/// What host names consist of, each byte in lower case; 0 for any other byte. Host names must
/// not have underscores, yet they are common.
const LOWER: [u8; 256] = {
    let mut lower = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        // below 128, so it fits
        #[allow(clippy::cast_possible_truncation)]
        let letter = byte as u8;
        if letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_' | b'.') {
            lower[byte] = letter.to_ascii_lowercase();
        }
        byte += 1;
    }
    lower
};

/// Copy a name in lower case. Returns whether dots separate labels, none of which is empty.
fn copy_labels(name: &[u8], to: &mut [u8; MAX_LENGTH]) -> bool {
    let mut before = b'.';
    for (to, from) in to.iter_mut().zip(name) {
        let byte = LOWER[usize::from(*from)];
        if byte == 0 || (byte == b'.' && before == b'.') {
            return false;
        }
        *to = byte;
        before = byte;
    }
    before != b'.'
}
