//! What ghost remembers about a request under a policy, and how it decides in a lookup.

use std::sync::Arc;

use ghost_core::cache::lookup::{decide, Advice, Budget, HitReason, Lookup};
use ghost_core::cache::poisoning::{treatment, Treatment};
use ghost_core::cache::record::Record;
use ghost_core::cache::status::Forward;
use ghost_core::cache::{
    vary, BypassReason, Policy, RequestDirectives, RevalidateReason, Timestamp,
};
use ghost_core::wire::Revalidation;
use ghost_core::OverBudget;
use ghost_sync::PerMinute;

use super::culprits::Requester;
use super::invalidation;
use crate::config::{Counters, Entry};
use crate::varnish::{Choose, Object, Slot, Task, Verdict};

/// Budgets of objects, by a part of the hash of their key. Two objects may share one.
static OBJECTS: [PerMinute; 4096] = [const { PerMinute::new() }; 4096];

/// The word for a request that takes too many steps.
pub const OVER_BUDGET: &str = "over-budget";

/// Why the cache is not asked.
#[derive(Clone, Copy, Debug)]
pub enum Pass {
    /// It is not for a cache, or its policy says so.
    Bypass(BypassReason),
    /// Its rule and the policy take too many steps for it: it is an error.
    OverBudget,
}

impl Pass {
    /// One word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Bypass(reason) => reason.name(),
            Self::OverBudget => OVER_BUDGET,
        }
    }

    /// For Cache-Status.
    pub fn forward(self) -> Forward {
        match self {
            Self::Bypass(reason) => reason.forward(),
            Self::OverBudget => Forward::Bypass,
        }
    }
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, Default)]
pub enum Stage {
    /// Ghost was not asked yet; if the request goes on, user VCL has decided.
    #[default]
    Undecided,
    /// The cache is asked.
    Lookup,
    /// It isn't.
    Pass(Pass),
}

/// How often clients may force a validation.
#[derive(Clone)]
pub struct ForcedBudget {
    limits: Revalidation,
    route: Arc<Counters>,
    object: &'static PerMinute,
}

impl ForcedBudget {
    /// For an object of a route, by a hash of its key.
    pub fn new(limits: Revalidation, route: Arc<Counters>, hash: u64) -> Self {
        let slot = usize::try_from(hash % OBJECTS.len() as u64).unwrap_or(0);
        Self { limits, route, object: &OBJECTS[slot] }
    }

    fn left(&self, now: Timestamp) -> Budget {
        let minute = minute(now);
        let left = self.object.is_below(self.limits.per_object, minute)
            && self.route.forced_validations.is_below(self.limits.per_route, minute);
        if left {
            Budget::Available
        } else {
            Budget::Exhausted
        }
    }

    /// A client has forced one.
    pub fn spend(&self, now: Timestamp) {
        let minute = minute(now);
        self.object.count(minute);
        self.route.forced_validations.count(minute);
    }
}

fn minute(now: Timestamp) -> u32 {
    u32::try_from(now.seconds() / 60).unwrap_or(0)
}

/// What decides whether the origin gets a header as a client sent it.
pub struct Sender {
    /// The policy.
    pub policy: Arc<Policy>,
    /// The rule, whose filters change requests.
    pub entry: Arc<Entry>,
}

/// About a request under a policy.
#[derive(Default)]
pub struct CacheTask {
    /// How far it has come.
    pub stage: Stage,
    /// A hash of its key. No client can choose two keys that have the same.
    pub hash: u64,
    /// Why it has no key: it is an error.
    pub keyless: Option<OverBudget>,
    /// Whether user VCL had its lookup find nothing, before ghost did for want of a key.
    pub missed_always: bool,
    /// What the client asks for.
    pub asked: RequestDirectives,
    /// Why an object in the cache is the answer.
    pub hit: Option<HitReason>,
    /// Why an object has to be validated.
    pub validates: Option<RevalidateReason>,
    /// What the origin gets.
    pub sender: Option<Sender>,
    /// How many lookups have ended: one more for each fetch that it waited for.
    pub lookups: u32,
    /// Why it would have been forwarded, had it not waited for the fetch of another request.
    pub waited: Option<Forward>,
    /// The beginning of its key as clients may see it, if the policy adds Cache-Status.
    pub key: Option<Box<[u8]>>,
    /// Whether there is an object for other values of a header.
    pub other_variants: bool,
    /// Why it was forwarded, after a miss.
    pub missed: Option<(Forward, &'static str)>,
    /// Its number, if a stale object may take the place of what it waits for.
    pub waits: Option<u64>,
    /// Whether ghost restarted it to deliver a stale object in place of an error.
    pub revived: bool,
    /// How often clients may force a validation.
    pub forced: Option<ForcedBudget>,
    /// The client, if a request of any has made the origin fail of late.
    pub requester: Option<Requester>,
}

impl Task for CacheTask {
    fn slot() -> &'static Slot<Self> {
        static SLOT: Slot<CacheTask> = Slot::new(c"ghost cache task");
        &SLOT
    }
}

impl CacheTask {
    /// Whether the client asks for more than any response.
    pub fn asks(&self) -> bool {
        let asked = &self.asked;
        let ages = [asked.max_age, asked.min_fresh];
        asked.no_cache
            || asked.only_if_cached
            || asked.max_stale.is_some()
            || ages.iter().any(Option::is_some)
    }

    /// Whether the client has made the fetch fail that was to replace the object.
    fn has_failed(&self, object: &Object<'_>, now: Timestamp) -> bool {
        self.requester.is_some_and(|requester| requester.has_failed(object, now))
    }

    fn decide(&self, object: &Object<'_>, now: Timestamp) -> Lookup {
        let times = object.times();
        let record = object.record().and_then(Record::parse).unwrap_or_default();
        let candidate = record.candidate(times.origin, times.lifetime, times.grace);
        let answer = |budget| decide(&Advice { asked: self.asked, budget }, Some(&candidate), now);
        match answer(Budget::Available) {
            Lookup::Revalidate(reason) if reason.is_forced() => {
                answer(self.forced.as_ref().map_or(Budget::Available, |forced| forced.left(now)))
            }
            answer => answer,
        }
    }
}

impl Choose for CacheTask {
    fn begin(&mut self) {
        (self.hit, self.validates, self.other_variants) = (None, None, false);
    }

    fn end(&mut self) {
        self.lookups += 1;
        self.waited.get_or_insert(match self.validates {
            Some(reason) if reason.is_forced() => Forward::Request,
            Some(_) => Forward::Stale,
            None if self.other_variants => Forward::VaryMiss,
            None => Forward::UriMiss,
        });
    }

    fn choose(&mut self, object: &Object<'_>, now: Timestamp) -> Verdict {
        // What no invalidation reaches any more isn't used: one may have meant it.
        if !invalidation::are_possible() {
            return Verdict::Ignore;
        }
        if invalidation::may_be_invalidated(object) {
            self.validates = Some(RevalidateReason::Stale);
            return Verdict::Validate;
        }
        let alone = object.is_stale_at_once();
        let fresh = !alone && object.times().stale_at() > now;
        // After a restart, or after waiting for a fetch, the object is the answer to this
        // request as well: a validation that many clients force takes place once.
        if fresh && (!self.asks() || self.revived || self.lookups > 0) {
            self.hit = Some(HitReason::Fresh);
            return Verdict::Default;
        }
        match self.decide(object, now) {
            Lookup::Hit(reason) => {
                self.hit = Some(reason);
                Verdict::Default
            }
            Lookup::StaleHit { reason, refresh } => {
                self.hit = Some(reason);
                // What is fetched for a client with no-store would be stored.
                if refresh && !self.asked.no_store && !self.has_failed(object, now) {
                    Verdict::Default
                } else {
                    Verdict::Hit
                }
            }
            Lookup::Revalidate(_) if self.has_failed(object, now) && in_grace(object, now) => {
                self.hit = Some(HitReason::Grace);
                Verdict::Hit
            }
            Lookup::Revalidate(reason) => {
                self.validates = Some(reason);
                match reason {
                    // Requests would wait for each other, and none could use what another got.
                    _ if alone => Verdict::ValidateAlone,
                    _ if fresh || in_grace(object, now) => Verdict::Validate,
                    _ => Verdict::Default,
                }
            }
            Lookup::GatewayTimeout | Lookup::Miss => Verdict::Validate,
        }
    }

    fn is_irrelevant(&self, name: &str) -> bool {
        let Some(sender) = &self.sender else { return false };
        let is_forwarded = matches!(treatment(&sender.policy, name.as_bytes()), Treatment::Forward);
        // What is keyed tells objects apart already.
        // varnishd asks every origin for gzip and decompresses for clients that want none.
        !is_forwarded
            || ["host", "accept-encoding"].iter().any(|known| known.eq_ignore_ascii_case(name))
            || sender.entry.target().rule.replaces_request_header(name)
    }

    fn means_the_same(&self, name: &str, one: Option<&[u8]>, other: Option<&[u8]>) -> bool {
        if self.sender.as_ref().is_some_and(|sender| sender.policy.normalises_vary) {
            return vary::same_meaning(name, one, other);
        }
        one == other
    }

    fn mismatch(&mut self) {
        self.other_variants = true;
    }
}

fn in_grace(object: &Object<'_>, now: Timestamp) -> bool {
    let times = object.times();
    times.stale_at().plus(times.grace) >= now
}
