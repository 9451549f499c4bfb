//! Clients whose requests make the origin fail.
//!
//! A stale response takes the place of an error, and the origin is left alone for some seconds. A
//! request may make the origin fail by itself, by a header that is not part of the key. Its client
//! could have each refresh fail, and keep the response stale until the end of its window. So a
//! client that caused such a failure causes no refresh of that object for a while: those of
//! others come first.

use std::collections::hash_map::DefaultHasher;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::OnceLock;

use ghost_core::cache::Timestamp;
use ghost_core::forwarding::TrustedProxies;

use crate::varnish::{Http, Object};

/// For how long others come first. If there are no others, or all have one address, a refresh
/// waits for this long after a failure.
const SECONDS: u64 = 15;

/// The last failures, by a part of the object's address: a hash of the client and the object, and
/// the second. Of two objects that share one, the later failure counts.
static LAST: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
/// When the last of all failures was.
static LATEST: AtomicU64 = AtomicU64::new(0);

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Requester(u32);

impl Requester {
    /// By its address: the first that trusted proxies have not removed or, without such proxies,
    /// that of the connection. One client has many addresses of IPv6.
    pub fn of(request: &Http<'_>, proxies: &TrustedProxies) -> Self {
        let list = request.header(b"x-forwarded-for").unwrap_or(b"");
        let address = proxies.client(list);
        let parsed = std::str::from_utf8(address).ok().and_then(|text| text.parse().ok());
        let mut hasher = DefaultHasher::new();
        match parsed {
            Some(IpAddr::V6(address)) => address.octets()[..8].hash(&mut hasher),
            Some(IpAddr::V4(address)) => address.octets().hash(&mut hasher),
            None => address.hash(&mut hasher),
        }
        Self(u32::try_from(hasher.finish() >> 32).unwrap_or(0))
    }

    /// Its request made the fetch fail that was to replace this object.
    pub fn note(self, object: &Object<'_>, now: Timestamp) {
        let second = second(now);
        slot(object).store(entry(self, object, second), Relaxed);
        LATEST.store(second, Relaxed);
    }

    /// Whether others should cause the next refresh of this object.
    pub fn has_failed(self, object: &Object<'_>, now: Timestamp) -> bool {
        let found = slot(object).load(Relaxed);
        let ago = second(now).wrapping_sub(found & u64::from(u32::MAX));
        found == entry(self, object, found) && found != 0 && ago < SECONDS
    }
}

/// Whether there was any failure of late: most requests need not know their client.
pub fn are_known(now: Timestamp) -> bool {
    second(now).wrapping_sub(LATEST.load(Relaxed)) < SECONDS
}

fn slot(object: &Object<'_>) -> &'static AtomicU64 {
    let mut hasher = DefaultHasher::new();
    object.address().hash(&mut hasher);
    &LAST[usize::try_from(hasher.finish() % LAST.len() as u64).unwrap_or(0)]
}

/// The origin made an object at one time. Another one that comes to lie where it lay has another.
fn entry(requester: Requester, object: &Object<'_>, second: u64) -> u64 {
    static SECRET: OnceLock<RandomState> = OnceLock::new();
    let made = object.times().origin.millis();
    let hash = SECRET.get_or_init(RandomState::new).hash_one((requester, object.address(), made));
    (hash & !u64::from(u32::MAX)) | (second & u64::from(u32::MAX))
}

fn second(now: Timestamp) -> u64 {
    u64::try_from(now.seconds()).unwrap_or(0) & u64::from(u32::MAX)
}
