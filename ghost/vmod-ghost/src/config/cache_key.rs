//! A rule's part of cache keys: short, and different for every rule.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

const LENGTH: usize = 22;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// 128 bits that stand for the meaning of a rule. varnishd computes a SHA-256 of every key in
/// blocks of 64 bytes, and a block costs more than finding the rule: most keys that begin with
/// a name of this length need no second one.
///
/// `SipHash` with secrets of this process makes the bits. Users name their rules, but no user
/// knows the secrets, so no two rules can be made to share objects.
pub struct CacheKey([u8; LENGTH]);

impl CacheKey {
    /// The key of a rule with this meaning, for one of its matches.
    pub fn of(meaning: &str, match_index: usize) -> Self {
        static SECRETS: OnceLock<[RandomState; 2]> = OnceLock::new();
        let secrets = SECRETS.get_or_init(Default::default);
        let [high, low] = [0, 1].map(|one: usize| secrets[one].hash_one((meaning, match_index)));
        let bits = u128::from(high) << 64 | u128::from(low);
        Self(std::array::from_fn(|place| DIGITS[(bits >> (6 * place)) as usize % DIGITS.len()]))
    }

    /// As text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("")
    }
}
