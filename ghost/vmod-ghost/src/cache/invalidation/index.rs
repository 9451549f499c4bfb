//! Which objects are in the cache, by what their clients requested.
//!
//! A fetch remembers that when it begins ([`Subject`]), and the stored response does in a header.
//! When the object becomes visible, [`arrive`] puts it into the index, or has it removed: what
//! isn't in the index would be missed by invalidations.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::OnceLock;
use std::time::Instant;

use ghost_core::cache::index::{
    indexed, Entry, HeldShape, Invalidation, Mode, Moment, Refused, Scope, Target,
};
use ghost_core::cache::requested::Requested;
use ghost_core::cache::tags::{Limits, TooMany};
use ghost_core::cache::{Headers, NotStoredReason, Policy};
use ghost_core::wire::TagHeader;
use ghost_core::{Host, Rule};
use serde_json::{json, Value};

use crate::varnish::{self, has_index, index_usage, Arrival, Fate, Fetch, Object};

/// Whether anything was fetched under a policy.
static USED: AtomicBool = AtomicBool::new(false);
/// When the last invalidation began.
static LATEST: AtomicU64 = AtomicU64::new(0);
/// Objects that were not kept, by [`place`].
static REFUSED: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
const REASONS: [Refused; 3] = [Refused::Full, Refused::TooManyTags, Refused::TargetTooLong];

/// What an object will be found by, once it is stored.
pub struct Subject {
    host: Box<[u8]>,
    target: Vec<u8>,
    /// What its policy ignores; None if nothing. An error if nothing is to be stored.
    shape: Result<Option<HeldShape>, Refused>,
    started: Moment,
}

impl Subject {
    /// Of a fetch that begins.
    pub fn of(fetch: &Fetch<'_>, policy: &Policy, rule: &Rule) -> Self {
        USED.store(true, SeqCst);
        // Before filters and user VCL change it.
        let original = fetch.original();
        let host = original.as_ref().and_then(|original| original.header(b"host")).unwrap_or(b"");
        let normal = Host::parse(host);
        let host = normal.as_deref().unwrap_or(host);
        let target = original.as_ref().map_or(&b""[..], |original| original.url());
        let target = policy.key.query.canonical(target);
        let shape = varnish::hold_shape(&rule.route, host, &policy.key.query);
        // The last step: an invalidation that comes later finds what is above.
        Self { host: host.into(), target, shape, started: now() }
    }

    /// Whether the index has room for the response.
    pub fn check(
        &self,
        fetch: &Fetch<'_>,
        policy: &Policy,
        rule: &Rule,
    ) -> Result<(), NotStoredReason> {
        if self.shape.is_err() {
            return Err(NotStoredReason::IndexFull);
        }
        let Some(beresp) = fetch.beresp() else { return Ok(()) };
        let tags = tags(&policy.tag_headers, &beresp).map_err(|_| NotStoredReason::TooManyTags)?;
        let target = indexed(self.target.clone(), self.shape());
        let entry = Entry {
            rule: &rule.identity,
            route: &rule.route,
            host: &self.host,
            target: &target,
            tags: &tags,
            started: self.started,
        };
        fetch.check_index(&entry).map_err(|refused| match refused {
            Refused::Full => NotStoredReason::IndexFull,
            Refused::TooManyTags => NotStoredReason::TooManyTags,
            Refused::TargetTooLong => NotStoredReason::TargetTooLong,
        })
    }

    /// Write what the stored response remembers.
    pub fn write(&self, policy: &Policy, rule: &Rule, to: &mut Vec<u8>) {
        let requested = Requested {
            stamp: stamp(),
            started: self.started,
            tag_headers: &policy.tag_headers,
            shape: self.shape(),
            host: &self.host,
            rule: &rule.identity,
            policy: &policy.name,
            target: &self.target,
        };
        requested.write(to);
    }

    /// The number of what its policy ignores.
    fn shape(&self) -> u64 {
        self.shape.as_ref().ok().and_then(Option::as_ref).map_or(0, HeldShape::number)
    }
}

/// An object becomes visible.
pub fn arrive(arrival: &Arrival<'_>) -> Fate {
    let object = arrival.object();
    let mut headers = Vec::new();
    // What another copy of ghost has stored, only its VCLs can find.
    let Some(requested) = object
        .requested()
        .and_then(|text| Requested::parse(text, &mut headers))
        .filter(|requested| requested.stamp == stamp())
    else {
        return Fate::Kept;
    };
    #[cfg(feature = "test-panic")]
    varnish::hold("arrive");
    match index(arrival, &requested) {
        Ok(None) => Fate::Kept,
        Ok(Some(mode)) => Fate::Invalidated(mode),
        Err(refused) => {
            count(refused);
            Fate::Removed
        }
    }
}

fn index(arrival: &Arrival<'_>, requested: &Requested<'_>) -> Result<Option<Mode>, Refused> {
    let found = tags(requested.tag_headers, arrival.object());
    let tags = found.map_err(|TooMany| Refused::TooManyTags)?;
    arrival.index(&Entry {
        rule: requested.rule,
        route: requested.route(),
        host: requested.host,
        target: &indexed(requested.target.to_vec(), requested.shape),
        tags: &tags,
        started: requested.started,
    })
}

pub(super) fn tags<'a>(
    fields: &[TagHeader],
    response: &'a impl Headers,
) -> Result<Vec<&'a [u8]>, TooMany> {
    let (mut limits, mut tags) = (Limits::default(), Vec::new());
    for &field in fields {
        limits.read(field, response, |tag| tags.push(tag))?;
    }
    Ok(tags)
}

/// Whether a lookup finds an object that an invalidation may concern, before ghost has found out.
pub fn may_be_invalidated(object: &Object<'_>) -> bool {
    if !object.is_arriving() {
        return false;
    }
    let mut headers = Vec::new();
    let requested = object.requested().and_then(|text| Requested::parse(text, &mut headers));
    requested.is_some_and(|requested| requested.started.nanos() <= LATEST.load(SeqCst))
}

/// Whether invalidations reach what is stored. They don't once a removal from the index has
/// panicked; nothing is stored then.
pub fn are_possible() -> bool {
    has_index()
}

/// Whether the cache may have anything to invalidate.
pub fn is_used() -> bool {
    USED.load(SeqCst)
}

/// Begin to invalidate: what was fetched until now is concerned.
pub fn begin() -> Moment {
    let at = now();
    LATEST.fetch_max(at.nanos(), SeqCst);
    at
}

/// Invalidate the objects of a URI. Out: how many there are.
pub fn invalidate_uri(
    host: &[u8],
    target: &[u8],
    (mode, scope): (Mode, Scope<'_>),
    at: Moment,
) -> u64 {
    let forms = varnish::forms(host, target, &scope);
    let each = forms.iter().map(|form| {
        let target = Target::Uri { host, target: form };
        varnish::invalidate(&Invalidation { target, scope, mode, at })
    });
    each.sum()
}

/// Count a response that isn't stored, if the index is the reason.
pub fn count_unstored(reason: NotStoredReason) {
    match reason {
        NotStoredReason::IndexFull => count(Refused::Full),
        NotStoredReason::TooManyTags => count(Refused::TooManyTags),
        NotStoredReason::TargetTooLong => count(Refused::TargetTooLong),
        _ => {}
    }
}

fn count(refused: Refused) {
    REFUSED[place(refused)].fetch_add(1, Relaxed);
}

fn place(refused: Refused) -> usize {
    REASONS.iter().position(|&reason| reason == refused).unwrap_or(0)
}

/// What the index holds.
pub fn usage() -> Value {
    let (usage, limit) = index_usage();
    let refused = REASONS.map(|reason| {
        (reason.name().to_owned(), Value::from(REFUSED[place(reason)].load(Relaxed)))
    });
    json!({
        "objects": usage.objects,
        "tags": usage.tags,
        "shapes": usage.shapes,
        "bytes": usage.bytes,
        "limit": limit,
        "broken": u8::from(!are_possible()),
        "refused": Value::Object(refused.into_iter().collect()),
    })
}

/// By a clock that is never set back, from 1.
fn now() -> Moment {
    static START: OnceLock<Instant> = OnceLock::new();
    let since = START.get_or_init(Instant::now).elapsed().as_nanos();
    Moment::from_nanos(u64::try_from(since).unwrap_or(u64::MAX).saturating_add(1))
}

/// Tells what this copy of ghost has written from anything else. No origin knows it.
fn stamp() -> u64 {
    static STAMP: OnceLock<u64> = OnceLock::new();
    *STAMP.get_or_init(|| RandomState::new().hash_one("ghost"))
}
