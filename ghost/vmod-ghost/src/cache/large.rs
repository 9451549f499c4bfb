//! Responses that are too large for the store, or for their policy.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use ghost_core::cache::syntax::digits;
use ghost_core::cache::{Headers, Policy};
use ghost_sync::Findings;

use super::{stale, stores};
use crate::failure::Failure;
use crate::fetch::FetchTask;
use crate::varnish::Fetch;

/// From so many keys of a rule on whose bodies were too large, less of its bodies is stored. One
/// client could ask for many URLs of a large response, and each would evict others once.
const MANY: u64 = 4;
/// So many bytes. Ordinary responses of many URLs evict as much.
const LESS: u64 = 1 << 20;

/// Which keys had a body without Content-Length that turned out to be too large.
static KEYS: Findings<1024> = Findings::new();
/// Of which rules they were.
static RULES: Findings<1024> = Findings::new();

/// Whether a response would take more than its policy allows, or than half of the store: others
/// would have to make room for it. Where no field tells the length, the body is counted as it
/// arrives, and an earlier response tells for some minutes.
pub fn is_too_large(fetch: &mut Fetch<'_>, policy: &Policy) -> Result<bool, Failure> {
    let half = fetch.store_name().and_then(stores::size).map(|size| size / 2);
    let Some(most) = [policy.max_object_size, half].into_iter().flatten().min() else {
        return Ok(false);
    };
    let beresp = fetch.beresp().ok_or(Failure::WrongSubroutine)?;
    if let Some(length) = beresp.only("content-length").and_then(digits) {
        return Ok(length > most);
    }
    if fetch.was_not_modified() {
        return Ok(false);
    }
    let Some(key) = stale::announced_key(fetch) else { return Ok(false) };
    let (key, rule) = (half_of(key), rule(fetch));
    if KEYS.count(key, minute()) > 0 {
        return Ok(true);
    }
    let name = (u64::from(rule) << 32) | u64::from(key);
    if RULES.count(rule, minute()) < MANY {
        fetch.limit_body(most, name, found)?;
    } else {
        fetch.limit_body(most.min(LESS), name, found_with_less)?;
    }
    Ok(false)
}

/// A part of the hash of the rule.
fn rule(fetch: &Fetch<'_>) -> u32 {
    static SECRET: OnceLock<RandomState> = OnceLock::new();
    let Some(memory) = fetch.recall::<FetchTask>() else { return 0 };
    let task = memory.get();
    let identity = task.target.as_ref().map(|target| &target.rule.identity);
    half_of(SECRET.get_or_init(RandomState::new).hash_one(identity))
}

/// The body of this rule and this key was too large.
fn found(name: u64) {
    let (key, minute) = (key_of(name), minute());
    if KEYS.count(key, minute) == 0 {
        RULES.add(half_of(name), minute);
    }
    KEYS.add(key, minute);
}

/// It was larger than what is left to its rule. The rule has it back ten minutes after the last
/// body that was too large by itself.
fn found_with_less(name: u64) {
    KEYS.add(key_of(name), minute());
}

fn half_of(hash: u64) -> u32 {
    u32::try_from(hash >> 32).unwrap_or(0)
}

fn key_of(name: u64) -> u32 {
    u32::try_from(name & u64::from(u32::MAX)).unwrap_or(0)
}

fn minute() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| u32::try_from(since.as_secs() / 60).unwrap_or(0))
}
