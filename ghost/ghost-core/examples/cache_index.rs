//! Memory and time of the index of cached objects, with a million of them.
//!
//! `cargo run --release --example cache_index [OBJECTS]`
//!
//! Every object has its own URI of 60 bytes on one of 100 hosts, one of 1,000 rules and one of
//! 10,000 tags. The allocator counts the bytes. Times are CPU times of the library alone: a
//! visitor does nothing.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use ghost_core::cache::index::{Entry, Index, Invalidation, Mode, Moment, Scope, Target, Visitor};

const HOSTS: usize = 100;
const RULES: usize = 1_000;
const TAGS: usize = 10_000;

/// Names of objects, made beforehand.
struct Names {
    hosts: Vec<String>,
    rules: Vec<(String, String)>,
    tags: Vec<String>,
    targets: Vec<String>,
}

impl Names {
    fn new(objects: usize) -> Self {
        let rule = |n| (format!("shop/route-{n}/0"), format!("shop/route-{n}"));
        let target = |n: usize| {
            let scattered = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 1_000_000_000;
            let path = format!("/products/{}/item-{scattered:09}/", scattered % 500);
            format!("{path:-<53}?v={:04}", n % 10_000)
        };
        Self {
            hosts: (0..HOSTS).map(|n| format!("www.shop-{n}.example.com")).collect(),
            rules: (0..RULES).map(rule).collect(),
            tags: (0..TAGS).map(|n| format!("product-{n}")).collect(),
            targets: (0..objects).map(target).collect(),
        }
    }

    fn insert(&self, index: &Index, n: usize) {
        // No modulus divides another: hosts, rules and tags are independent of each other.
        let (rule, route) = &self.rules[n / 7 % RULES];
        let entry = Entry {
            rule,
            route,
            host: self.hosts[n / 3 % HOSTS].as_bytes(),
            target: self.targets[n].as_bytes(),
            tags: &[self.tags[n % TAGS].as_bytes()],
            started: Moment::from_nanos(2),
        };
        assert_eq!(index.insert(handle(n), &entry), Ok(None));
    }
}

/// As an allocator hands out addresses of objects.
fn handle(n: usize) -> usize {
    0x7f00_0000_0000 + n * 272
}

/// Resident memory of this process in bytes.
fn resident() -> usize {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kilobytes.unwrap_or(0) << 10
}

fn print_bytes(name: &str, bytes: usize, of: usize) {
    let tenths = bytes * 10 / of;
    println!("{name:>44}: {:>6}.{} bytes", tenths / 10, tenths % 10);
}

/// The nanoseconds that this thread has been on a processor.
fn cpu() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let on_processor = text.split(' ').next().unwrap_or_default();
    on_processor.parse().unwrap_or(0)
}

fn each(name: &str, calls: usize, mut work: impl FnMut(usize)) {
    let began = cpu();
    (0..calls).for_each(&mut work);
    println!("{name:>44}: {:>8} ns", (cpu() - began) / calls.max(1) as u64);
}

/// Notes the times between two pauses.
struct Stopwatch {
    began: Instant,
    batches: Vec<Duration>,
}

impl Visitor for Stopwatch {
    fn visit(&mut self, handle: usize) -> bool {
        black_box(handle) > 0
    }

    fn pause(&mut self) {
        self.batches.push(self.began.elapsed());
        self.began = Instant::now();
    }
}

fn purge(name: &str, index: &Index, target: Target<'_>, scope: Scope<'_>) {
    let what = Invalidation { target, scope, mode: Mode::Soft, at: Moment::from_nanos(1) };
    let mut visitor = Stopwatch { began: Instant::now(), batches: Vec::with_capacity(1 << 20) };
    let began = cpu();
    let count = index.invalidate(&what, &mut visitor);
    let took = (cpu() - began) / 1000;
    visitor.batches.sort_unstable();
    let [half, most] = [50, 99].map(|part| visitor.batches[visitor.batches.len() * part / 100]);
    println!(
        "{name:>44}: {took:>8} us, {count:>8} objects, batches of {half:.1?}, 99 % within {most:.1?}"
    );
}

fn purges(index: &Index, names: &Names) {
    let host = names.hosts[3].as_bytes();
    let tags: Vec<_> = names.tags.iter().map(String::as_bytes).collect();
    let n = 3 * 3;
    let uri = Target::Uri { host, target: names.targets[n].as_bytes() };
    purge("a URI", index, uri, Scope::All);
    purge("the same again", index, uri, Scope::All);
    purge("a URI that isn't there", index, Target::Uri { host, target: b"/x" }, Scope::All);
    purge("a tag", index, Target::Tags(&tags[..1]), Scope::All);
    purge("100 tags", index, Target::Tags(&tags[..100]), Scope::All);
    purge("10,000 tags", index, Target::Tags(&tags), Scope::All);
    purge("a prefix", index, Target::Prefix { host, prefix: b"/products/17/" }, Scope::All);
    purge("a host", index, Target::Host(host), Scope::All);
    let route = &names.rules[0].1;
    purge("a host, in the scope of a route", index, Target::Host(host), Scope::Routes(&[route]));
    purge("a route", index, Target::Route(route), Scope::All);
    purge("everything", index, Target::Everything, Scope::All);
    let own = Scope::Routes(&[route]);
    purge("everything, in the scope of a route", index, Target::Everything, own);
}

/// What each step costs that waits for memory.
fn yardstick() {
    let size = 1 << 24;
    let next: Vec<u32> = (0..size).map(|n| ((n * 5 + 12_345) % size) ^ (n & 0xf_f000)).collect();
    let mut at = 0;
    each("a random read of 64 MiB", 1 << 20, |n| {
        at = next[at as usize] ^ u32::try_from(n).unwrap_or(0);
    });
    black_box(at);
}

/// The order of URIs alone, in the standard library's tree.
fn alternative(names: &Names) {
    let mut tree: BTreeMap<Box<[u8]>, u32> = BTreeMap::new();
    let count = names.targets.len();
    let allocated = allocation_counter::measure(|| {
        each("BTreeMap of targets: insert", count, |n| {
            tree.insert(names.targets[n].as_bytes().into(), 0);
        });
    });
    let bytes = usize::try_from(allocated.bytes_current).unwrap_or(0);
    print_bytes("BTreeMap of targets, beside each target", bytes - 60 * count, count);
    each("BTreeMap of targets: remove", count, |n| {
        tree.remove(names.targets[n * 7919 % count].as_bytes());
    });
}

/// Two threads insert and remove, with one lock for both and with the locks of the index.
fn parallel(names: &Names) {
    let count = names.targets.len() / 4;
    for locked in [true, false] {
        let (index, one) = (Index::new(usize::MAX), Mutex::new(()));
        let started = Instant::now();
        thread::scope(|scope| {
            for half in 0..2 {
                let (index, one) = (&index, &one);
                scope.spawn(move || {
                    for n in half * count..(half + 1) * count {
                        let _guard = locked.then(|| one.lock());
                        names.insert(index, n);
                    }
                });
            }
        });
        let name = if locked { "one lock" } else { "its own locks" };
        let nanos = started.elapsed().as_nanos() / (2 * count) as u128;
        println!("{:>44}: {nanos:>8} ns", format!("insert, two threads, {name}"));
    }
}

fn main() {
    let count = env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    yardstick();
    let names = Names::new(count);
    let index = Index::new(usize::MAX);
    let empty = index.usage().bytes;
    let before = resident();
    let allocated =
        allocation_counter::measure(|| each("insert", count, |n| names.insert(&index, n)));
    let usage = index.usage();
    print_bytes("for each object, as it counts", usage.bytes - empty, count);
    let by_allocator = usize::try_from(allocated.bytes_current).unwrap_or(0);
    print_bytes("by the allocator", by_allocator, count);
    print_bytes("resident", resident().saturating_sub(before), count);
    print_bytes("of an empty index", empty, 1);
    purges(&index, &names);
    each("replace in random order", count / 4, |n| names.insert(&index, n * 7919 % count));
    each("remove in random order", count, |n| {
        assert!(index.remove(handle(n * 7919 % count)));
    });
    print_bytes("left of each", index.usage().bytes - empty, count);
    parallel(&names);
    alternative(&names);
}
