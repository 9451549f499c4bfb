//! From the wire to a policy.

use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use super::super::key::KeyPolicy;
use super::super::time::FOREVER;
use super::{bounded, Bypass, Grace, Policy, Ttl, DEFAULT_HIT_FOR_MISS, DEFAULT_KEEP};
use crate::budget::Budget;
use crate::wire;

/// Why a policy can't be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The field at fault, as `bypass.headers[0].valueRegex`.
    pub field: String,
    /// What is wrong with it, and the remedy.
    pub message: String,
}

impl PolicyError {
    pub(in super::super) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl std::error::Error for PolicyError {}

fn identity(source: &wire::CachePolicy) -> u64 {
    let mut hasher = DefaultHasher::new();
    source.hash(&mut hasher);
    hasher.finish()
}

pub(super) fn policy(
    source: &wire::CachePolicy,
    budget: &mut Budget,
) -> Result<Policy, PolicyError> {
    let (statuses, classes) = status_ttls(&source.status_ttls)?;
    Ok(Policy {
        name: source.name.as_str().into(),
        identity: identity(source),
        ttl: ttl(source)?,
        ignores_no_store_and_private: unsafe_override(source)?,
        statuses,
        classes,
        heuristic_percent: percent(source.heuristic_percent, "heuristicPercent")?,
        grace: grace(source)?,
        stale_if_error: millis(source.stale_if_error.unwrap_or(0)),
        keep: source.keep.map_or(DEFAULT_KEEP, millis),
        jitter_percent: percent(source.jitter_percent, "jitterPercent")?,
        hit_for_miss: source.hit_for_miss.map_or(DEFAULT_HIT_FOR_MISS, millis),
        key: KeyPolicy::compile(&source.cache_key, budget)?,
        bypass: Bypass::compile(&source.bypass, budget)?,
        set_cookie: source.set_cookie,
        request_cookies: source.request_cookies,
        honours_requests: !source.ignore_request_directives,
        revalidation: source.revalidation,
        normalises_vary: !source.exact_vary,
        tag_headers: source.tag_headers.as_slice().into(),
        cache_status: source.cache_status,
        max_object_size: source.max_object_size,
        gzip: source.gzip,
        esi: source.esi,
    })
}

fn ttl(source: &wire::CachePolicy) -> Result<Ttl, PolicyError> {
    match (source.default_ttl, source.forced_ttl) {
        (Some(ttl), None) => Ok(Ttl::Default(millis(ttl))),
        (None, Some(ttl)) => Ok(Ttl::Forced(millis(ttl))),
        (Some(_), Some(_)) => {
            Err(PolicyError::new("forcedTTL", "excludes defaultTTL; remove one of them"))
        }
        (None, None) => Err(PolicyError::new("defaultTTL", "is absent; set it or forcedTTL")),
    }
}

fn unsafe_override(source: &wire::CachePolicy) -> Result<bool, PolicyError> {
    let ignores = source.unsafe_ignore_no_store_and_private;
    if ignores && source.forced_ttl.is_none() {
        let message = "has an effect only with forcedTTL; remove it, or set forcedTTL";
        return Err(PolicyError::new("unsafeIgnoreNoStoreAndPrivate", message));
    }
    Ok(ignores)
}

fn grace(source: &wire::CachePolicy) -> Result<Grace, PolicyError> {
    match (source.grace, source.stale_while_revalidate) {
        (Some(_), Some(_)) => Err(PolicyError::new(
            "staleWhileRevalidate",
            "excludes grace, which is the same window whatever the origin states; remove one of them",
        )),
        (Some(grace), None) => Ok(Grace::Fixed(millis(grace))),
        (None, window) => Ok(Grace::Default(millis(window.unwrap_or(0)))),
    }
}

fn percent(percent: u8, field: &str) -> Result<u8, PolicyError> {
    let error = || PolicyError::new(field, format!("{percent} is not a percentage; use 0 to 100"));
    (percent <= 100).then_some(percent).ok_or_else(error)
}

type ByStatus = (Box<[(u16, Duration)]>, [Option<Duration>; 6]);

fn status_ttls(sources: &[wire::StatusTtl]) -> Result<ByStatus, PolicyError> {
    bounded(sources, "statusTTLs")?;
    let mut statuses: Vec<(u16, Duration)> = Vec::new();
    let mut classes = [None; 6];
    for (index, source) in sources.iter().enumerate() {
        let error =
            |message: String| PolicyError::new(format!("statusTTLs[{index}].status"), message);
        let ttl = millis(source.ttl);
        let repeated = match (class(&source.status), source.status.parse::<u16>()) {
            (Some(class), _) => classes[class].replace(ttl).is_some(),
            (None, Ok(status @ 200..=599)) if !matches!(status, 206 | 304) => {
                statuses.push((status, ttl));
                statuses.iter().filter(|(other, _)| *other == status).count() > 1
            }
            _ => {
                let text = &source.status;
                return Err(error(format!("{text:?} can't be stored; use 200 to 599, but not 206 or 304, or a class such as 4xx")));
            }
        };
        if repeated {
            return Err(error(format!("{:?} occurs twice; remove one of them", source.status)));
        }
    }
    statuses.sort_unstable();
    Ok((statuses.into(), classes))
}

/// The first digit of a class such as `4xx`.
fn class(text: &str) -> Option<usize> {
    ["2xx", "3xx", "4xx", "5xx"].iter().position(|class| *class == text).map(|at| at + 2)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis).min(FOREVER)
}
