//! The key of a request.

use std::cell::RefCell;
use std::ffi::CStr;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use ghost_core::cache::key::{self, KeyPolicy, KeyRequest, Shown};
use ghost_core::cache::status::MAX_TEXT;
use ghost_core::wire::CacheStatus as Audience;
use ghost_core::{target, Host, OverBudget, Steps};

use super::culprits::{self, Requester};
use super::policy::Cached;
use super::stale;
use super::task::{CacheTask, ForcedBudget, Sender, Stage};
use crate::config::Instance;
use crate::failure::Failure;
use crate::request::{ClientTask, Outcome};
use crate::varnish::{Client, Http, Memory};

thread_local! {
    /// Each thread writes its keys to the same memory.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The policy of a request, unless user VCL chose another backend.
pub fn of<'t>(
    client: &Client<'_>,
    memory: &Memory<ClientTask>,
    task: &'t ClientTask,
) -> Option<&'t Cached> {
    task.cached.as_ref().filter(|_| memory.gave(client.backend_hint()))
}

/// Add to the key what tells requests apart: everything for a request under a policy; the rule
/// and the scheme for any other.
pub fn hash(client: &Client<'_>, instance: &Instance) -> Result<(), Failure> {
    client.decide_no_lookup();
    let Some(memory) = client.recall::<ClientTask>() else { return Ok(()) };
    let task = memory.get();
    let Some(cached) = of(client, memory, &task) else {
        let (rule, scheme) = task.cache_key();
        return add(client, |to| {
            to.extend_from_slice(rule.as_bytes());
            to.extend_from_slice(scheme.as_bytes());
        });
    };
    let cache = client.remember::<CacheTask>().ok_or(Failure::OutOfWorkspace)?;
    if matches!(cache.get().stage, Stage::Pass(_)) {
        return Ok(());
    }
    let mut http = client.req().ok_or(Failure::WrongSubroutine)?;
    let Added { written, shown } = add_key(client, &http, &task, cached)?;
    if let Err(part) = written {
        // Nothing is stored under what there is of the key.
        let missed_always = client.miss_always(true);
        let mut own = cache.get_mut();
        (own.keyless, own.missed_always) = (Some(part), missed_always);
        return Ok(());
    }
    let hash = hash_of_key();
    stale::announce(&mut http, &cached.policy, hash)?;
    // The lookup changes the memory, too.
    {
        let mut own = cache.get_mut();
        (own.keyless, own.key, own.hash) = (None, shown, hash);
        own.requester = requester(client, instance, &http)?.or(own.requester);
        equip(&mut own, &task, cached);
    }
    let decides = client.decide_lookup(cache);
    decides.then_some(()).ok_or(Failure::OutOfWorkspace)
}

/// A key that varnishd has.
struct Added {
    /// What takes too many steps, if it is not complete.
    written: Result<(), OverBudget>,
    /// Its beginning as clients may see it, if the policy adds Cache-Status.
    shown: Option<Box<[u8]>>,
}

/// Add the whole key of a request.
fn add_key(
    client: &Client<'_>,
    http: &Http<'_>,
    task: &ClientTask,
    cached: &Cached,
) -> Result<Added, Failure> {
    let (path, query) = target::split(http.url());
    let host = http.header(b"host").unwrap_or(b"");
    let normal = Host::parse(host);
    let (rule, _) = task.cache_key();
    let request = KeyRequest {
        rule,
        listener: &cached.listener.name,
        https: task.tls,
        host: normal.as_deref().unwrap_or(host),
        port: key::port(host, task.tls),
        path,
        query,
        headers: http,
    };
    let mut text = (cached.policy.cache_status != Audience::Off).then(Vec::new);
    let write = |to: &mut Vec<u8>| write(&cached.policy.key, &request, &task.steps, to, &mut text);
    let written = add(client, write)?;
    let shown = text.map(|mut text| {
        text.truncate(MAX_TEXT);
        text.into()
    });
    Ok(Added { written, shown })
}

/// Remember what the lookup decides by.
fn equip(cache: &mut CacheTask, task: &ClientTask, cached: &Cached) {
    if cache.asks() {
        cache.forced = forced_budget(task, cached, cache.hash);
    }
    if let Outcome::Routed(entry, _) = &task.outcome {
        cache.sender = Some(Sender { policy: cached.policy.clone(), entry: entry.clone() });
    }
}

/// The client, if a request of any has made an origin fail of late.
fn requester(
    client: &Client<'_>,
    instance: &Instance,
    http: &Http<'_>,
) -> Result<Option<Requester>, Failure> {
    if !culprits::are_known(client.now()) {
        return Ok(None);
    }
    let snapshot = instance.snapshot();
    let proxies = &snapshot.as_ref().ok_or(Failure::NotLoaded)?.requests.proxies;
    Ok(Some(Requester::of(http, proxies)))
}

/// Write the key and, for Cache-Status, what clients may see of it. Each process hides values in
/// its own way.
fn write(
    policy: &KeyPolicy,
    request: &KeyRequest<'_, Http<'_>>,
    steps: &Steps,
    to: &mut Vec<u8>,
    text: &mut Option<Vec<u8>>,
) -> Result<(), OverBudget> {
    static HIDDEN: OnceLock<RandomState> = OnceLock::new();
    let Some(text) = text else { return key::write(policy, request, steps, to) };
    let hidden = HIDDEN.get_or_init(RandomState::new);
    let shown = Shown { to: text, hide: &|value| hidden.hash_one(value) };
    key::write_and_show(policy, request, steps, to, shown)
}

/// Whether the key is complete.
pub fn is_keyed(client: &Client<'_>) -> bool {
    let Some(memory) = client.recall::<ClientTask>() else { return false };
    of(client, memory, &memory.get()).is_some()
}

/// A hash of the key in the buffer.
fn hash_of_key() -> u64 {
    static SECRET: OnceLock<RandomState> = OnceLock::new();
    BUFFER.with_borrow(|buffer| SECRET.get_or_init(RandomState::new).hash_one(buffer))
}

/// The budget of validations that clients force, for what has a key with this hash.
fn forced_budget(task: &ClientTask, cached: &Cached, hash: u64) -> Option<ForcedBudget> {
    let Outcome::Routed(entry, _) = &task.outcome else { return None };
    let counters = &entry.target().service.counters;
    Some(ForcedBudget::new(cached.policy.revalidation, counters.clone(), hash))
}

fn add<T>(client: &Client<'_>, write: impl FnOnce(&mut Vec<u8>) -> T) -> Result<T, Failure> {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.clear();
        let written = write(buffer);
        buffer.push(0);
        // varnishd rejects requests that have a NUL in what a key is made from.
        client.add_to_key(CStr::from_bytes_with_nul(buffer).map_err(|_| Failure::OddKey)?);
        Ok(written)
    })
}
