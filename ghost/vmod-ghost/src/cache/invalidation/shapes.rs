//! Which query parameters policies ignore, for those who look for the objects of a URI.
//!
//! An object stands for all URIs that differ only in parameters which its policy ignores, and in
//! the order of the others. The index knows it by one of them: without these parameters, in the
//! order of the key, with a number for what is ignored. An invalidation of a URI looks for what
//! that URI is under each policy that has fetched something for its host, also one that has
//! changed since: a policy may come back, and its objects with it.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::{LazyLock, Mutex};

use foldhash::fast::RandomState;
use ghost_core::cache::key::{QueryPolicy, Shape};
use ghost_core::cache::Policy;
use ghost_core::shares::namespace_of;

use crate::config::lock;

/// The most shapes that the policies of a namespace may have had since varnishd started. Policies
/// of more have nothing stored.
const MOST: usize = 8192;
/// The most hosts that a shape remembers; then it counts for all.
const MOST_HOSTS: usize = 1024;

static SHAPES: LazyLock<Mutex<Shapes>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Shapes {
    known: HashMap<Shape, Known, RandomState>,
    /// How many each namespace has.
    counts: HashMap<Box<str>, usize, RandomState>,
    hosts: RandomState,
}

struct Known {
    number: u32,
    /// Hashes of hosts; None: any.
    hosts: Option<HashSet<u64, RandomState>>,
}

/// The number of what a policy ignores, now that something is fetched for this host; 0 if all
/// parameters count. None if its namespace has had too many.
pub fn number(policy: &Policy, host: &[u8]) -> Option<u32> {
    let Some(shape) = policy.key.query.shape() else { return Some(0) };
    let mut shapes = lock(&SHAPES);
    let shapes = &mut *shapes;
    let host = shapes.hosts.hash_one(host);
    let next = shapes.known.len() + 1;
    if !shapes.known.contains_key(&shape) {
        let count = shapes.counts.entry(namespace_of(&policy.name).into()).or_default();
        if *count >= MOST {
            return None;
        }
        *count += 1;
    }
    let new =
        || Known { number: u32::try_from(next).unwrap_or(0), hosts: Some(HashSet::default()) };
    let known = shapes.known.entry(shape).or_insert_with(new);
    if let Some(hosts) = &mut known.hosts {
        hosts.insert(host);
        if hosts.len() > MOST_HOSTS {
            known.hosts = None;
        }
    }
    Some(known.number)
}

/// A target as the index knows it.
pub fn indexed(mut target: Vec<u8>, number: u32) -> Vec<u8> {
    if number > 0 {
        // No target that a client can request has a NUL byte.
        target.push(0);
        target.extend_from_slice(number.to_string().as_bytes());
    }
    target
}

/// Path and query of what the index knows.
pub fn target_of(indexed: &[u8]) -> &[u8] {
    indexed.split(|&byte| byte == 0).next().unwrap_or(indexed)
}

/// What the index may know a URI as.
pub fn forms(host: &[u8], target: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = vec![QueryPolicy::All.canonical(target)];
    let here: Vec<_> = {
        let shapes = lock(&SHAPES);
        let host = shapes.hosts.hash_one(host);
        let of_host = |known: &Known| known.hosts.as_ref().is_none_or(|all| all.contains(&host));
        let here = shapes.known.iter().filter(|(_, known)| of_host(known));
        here.map(|(shape, known)| (shape.clone(), known.number)).collect()
    };
    forms.extend(
        here.into_iter().map(|(shape, number)| {
            indexed(QueryPolicy::of_shape(&shape).canonical(target), number)
        }),
    );
    forms
}
