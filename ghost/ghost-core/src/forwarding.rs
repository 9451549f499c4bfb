//! Which of the forwarding headers of a request the gateway believes.
//!
//! In:  the addresses in X-Forwarded-For, and the [`TrustedProxies`] of the Gateway.
//! Out: how many entries, from the last, trusted proxies have written.
//!
//! One rule for all of these headers: what no trusted proxy has written does not reach a
//! backend. So X-Forwarded-* and Forwarded can't contradict each other.
//!
//! ```
//! use ghost_core::forwarding::{last_members, TrustedProxies};
//! use ghost_core::wire::{self, RequestRules};
//!
//! let rules: RequestRules = wire::decode(br#"{"trustedRanges": ["10.0.0.0/8"]}"#)?;
//! let trusted = TrustedProxies::compile(&rules)?;
//! let received = b"6.6.6.6, 192.0.2.1, 10.0.0.2";
//! assert_eq!(trusted.believed(received, b"10.0.0.1"), 2);
//! assert_eq!(last_members(received, 2), b"192.0.2.1, 10.0.0.2");
//! assert_eq!(trusted.believed(received, b"192.0.2.9"), 0);
//! assert!(!TrustedProxies::default().are_configured());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::net::IpAddr;

use crate::wire;

/// The proxies in front of a gateway.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies {
    hops: Option<usize>,
    ranges: Ranges,
}

/// A range of addresses is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedRange(pub String);

impl fmt::Display for MalformedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no range of addresses", self.0)
    }
}

impl std::error::Error for MalformedRange {}

/// Ranges of addresses.
///
/// ```
/// use ghost_core::forwarding::Ranges;
///
/// let ranges = Ranges::parse(&["10.0.0.0/8".into(), "2001:db8::/32".into()])?;
/// assert!(ranges.includes(b"10.1.2.3") && ranges.includes(b"::ffff:10.1.2.3"));
/// assert!(!ranges.includes(b"192.0.2.1") && !ranges.includes(b"10.1.2.3, 10.1.2.4"));
/// assert!(Ranges::default().is_empty() && !Ranges::default().includes(b"10.1.2.3"));
/// # Ok::<(), ghost_core::forwarding::MalformedRange>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Ranges(Box<[Range]>);

impl Ranges {
    /// Parse texts such as `10.0.0.0/8`.
    ///
    /// # Errors
    /// One is not an address with a length.
    pub fn parse(texts: &[String]) -> Result<Self, MalformedRange> {
        let parse = |text: &String| Range::parse(text).ok_or_else(|| MalformedRange(text.clone()));
        Ok(Self(texts.iter().map(parse).collect::<Result<_, _>>()?))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is an address in one of them.
    #[must_use]
    pub fn includes(&self, address: &[u8]) -> bool {
        parse(address).is_some_and(|address| self.include(address))
    }

    /// The same for an address that is parsed.
    #[must_use]
    pub fn include(&self, address: IpAddr) -> bool {
        self.0.iter().any(|range| range.includes(address.to_canonical()))
    }
}

impl TrustedProxies {
    /// Parse the ranges.
    ///
    /// # Errors
    /// A range is not an address with a length.
    pub fn compile(rules: &wire::RequestRules) -> Result<Self, MalformedRange> {
        Ok(Self { hops: rules.trusted_hops, ranges: Ranges::parse(&rules.trusted_ranges)? })
    }

    /// Whether the Gateway names trusted proxies, or says that there are none. Otherwise every
    /// entry of X-Forwarded-For stays, and none is believed.
    #[must_use]
    pub fn are_configured(&self) -> bool {
        self.hops.is_some() || !self.ranges.is_empty()
    }

    /// How many of the entries that arrived in X-Forwarded-For were written by trusted proxies,
    /// given the address that the request came from.
    #[must_use]
    pub fn believed(&self, received: &[u8], peer: &[u8]) -> usize {
        if self.ranges.is_empty() {
            return self.hops.unwrap_or(0);
        }
        let from_last = members(received).rev();
        let written_by = std::iter::once(peer).chain(from_last);
        let trusted = written_by.take_while(|address| self.includes(address)).count();
        trusted.min(members(received).count()).max(usize::from(trusted > 0))
    }

    /// Whether an address is one of the trusted ranges.
    #[must_use]
    pub fn includes(&self, address: &[u8]) -> bool {
        self.ranges.includes(address)
    }

    /// The address of the client, given what [`believed`](Self::believed) has left of
    /// X-Forwarded-For, with the peer of the connection as its last member: the first one where
    /// the Gateway names proxies, the peer otherwise.
    ///
    /// ```
    /// use ghost_core::forwarding::TrustedProxies;
    /// use ghost_core::wire::{self, RequestRules};
    ///
    /// let rules: RequestRules = wire::decode(br#"{"trustedHops": 1}"#)?;
    /// let list = b"192.0.2.1, 10.0.0.1";
    /// assert_eq!(TrustedProxies::compile(&rules)?.client(list), b"192.0.2.1");
    /// assert_eq!(TrustedProxies::default().client(list), b"10.0.0.1");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn client<'l>(&self, list: &'l [u8]) -> &'l [u8] {
        let first = members(list).next().filter(|_| self.are_configured());
        first.unwrap_or_else(|| last_members(list, 1))
    }

    /// The address of the client, for a decision that must not follow what it may have written;
    /// None if it can't be known. `list` is X-Forwarded-For as [`believed`](Self::believed) has
    /// left it, or None where something else may have changed it since. It counts only where the
    /// peer of the connection is a trusted proxy, and ends with that one.
    ///
    /// ```
    /// use ghost_core::forwarding::TrustedProxies;
    /// use ghost_core::wire::{self, RequestRules};
    ///
    /// let rules: RequestRules = wire::decode(br#"{"trustedRanges": ["10.0.0.0/8"]}"#)?;
    /// let proxies = TrustedProxies::compile(&rules)?;
    /// let (peer, stranger) = ("10.0.0.1".parse()?, "192.0.2.9".parse()?);
    /// let list = Some(&b"192.0.2.1, 10.0.0.1"[..]);
    /// assert_eq!(proxies.proven_client(peer, list), Some("192.0.2.1".parse()?));
    /// assert_eq!(proxies.proven_client(peer, None), None);
    /// assert_eq!(proxies.proven_client(stranger, list), Some(stranger));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn proven_client(&self, peer: IpAddr, list: Option<&[u8]>) -> Option<IpAddr> {
        let peer = peer.to_canonical();
        let is_trusted = match &self.ranges {
            ranges if ranges.is_empty() => self.hops.unwrap_or(0) > 0,
            ranges => ranges.include(peer),
        };
        if !is_trusted {
            return Some(peer);
        }
        let list = list?;
        let writer = parse(last_members(list, 1)).map(|address| address.to_canonical());
        if writer != Some(peer) {
            return None;
        }
        members(list).next().and_then(parse)
    }
}

/// An address as a list has it.
fn parse(address: &[u8]) -> Option<IpAddr> {
    std::str::from_utf8(address).ok()?.parse().ok()
}

/// The last members of a list, as it has them.
#[must_use]
pub fn last_members(list: &[u8], count: usize) -> &[u8] {
    let Some(before) = count.checked_sub(1) else { return b"" };
    let commas = list.iter().enumerate().rev().filter(|(_, &byte)| byte == b',');
    let start = commas.map(|(at, _)| at + 1).nth(before).unwrap_or(0);
    list[start..].trim_ascii()
}

/// The members of a list.
pub fn members(list: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    list.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

#[derive(Clone, Copy, Debug)]
struct Range {
    bits: u128,
    length: u32,
    is_v4: bool,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let (bits, is_v4) = bits(address);
        let length: u32 = length.parse().ok()?;
        (length <= if is_v4 { 32 } else { 128 }).then_some(Self { bits, length, is_v4 })
    }

    fn includes(&self, address: IpAddr) -> bool {
        let (bits, is_v4) = bits(address);
        let differing = (bits ^ self.bits).leading_zeros();
        is_v4 == self.is_v4 && (differing >= self.length)
    }
}

/// The bits of an address, from the highest.
fn bits(address: IpAddr) -> (u128, bool) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, true),
        IpAddr::V6(address) => (address.to_bits(), false),
    }
}
