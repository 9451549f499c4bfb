//! Names as 128-bit keyed hashes.
//!
//! Both halves are SipHash-1-3 under the same random key, of inputs that differ in their first
//! byte. The key is drawn in each process and never leaves it, so no client can search for two
//! names with the same hash. Of 10⁹ names two are equal by chance with a probability below
//! 2⁻⁶⁸: this counts as exact. Two such names would be invalidated together; none would be
//! missed.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::shares::namespace_of;

/// The hash of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key([u64; 2]);

impl Key {
    /// 64 bits of it.
    pub(super) fn bits(self) -> u64 {
        self.0[0]
    }

    /// 32 others.
    pub(super) fn fingerprint(self) -> u32 {
        (self.0[1] >> 32) as u32
    }
}

/// What is named. Equal names of different kinds have different keys.
#[derive(Clone, Copy)]
enum Kind {
    Host,
    Uri,
    Tag,
    Rule,
    Route,
    Namespace,
}

/// Makes keys.
#[derive(Debug, Default)]
pub(super) struct Keys(RandomState);

impl Keys {
    pub(super) fn host(&self, name: &[u8]) -> Key {
        self.key(Kind::Host, Key::default(), name)
    }

    pub(super) fn uri(&self, host: Key, target: &[u8]) -> Key {
        self.key(Kind::Uri, host, target)
    }

    fn tag(&self, name: &[u8]) -> Key {
        self.key(Kind::Tag, Key::default(), name)
    }

    /// Without repetitions.
    pub(super) fn tags(&self, names: &[&[u8]]) -> Vec<Key> {
        let mut keys: Vec<_> = names.iter().map(|name| self.tag(name)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    pub(super) fn rule(&self, identity: &str) -> Key {
        self.key(Kind::Rule, Key::default(), identity.as_bytes())
    }

    pub(super) fn route(&self, name: &str) -> Key {
        self.key(Kind::Route, Key::default(), name.as_bytes())
    }

    /// The namespace of a route, which is `namespace/name`.
    pub(super) fn namespace_of(&self, route: &str) -> Key {
        self.namespace(namespace_of(route))
    }

    pub(super) fn namespace(&self, name: &str) -> Key {
        self.key(Kind::Namespace, Key::default(), name.as_bytes())
    }

    fn key(&self, kind: Kind, within: Key, name: &[u8]) -> Key {
        let half = |half: u8| {
            let mut hasher = self.0.build_hasher();
            hasher.write_u8(kind as u8 * 2 + half);
            if let Kind::Uri = kind {
                hasher.write_u64(within.0[0]);
                hasher.write_u64(within.0[1]);
            }
            hasher.write(name);
            hasher.finish()
        };
        Key([half(0), half(1)])
    }
}
