//! Models of the counts: loom runs every interleaving of their threads (`make loom`). They are
//! here, not in `tests`, because only tests of the crate itself are built with loom's atomics.

use std::sync::Arc;

use loom::model::Builder;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

use super::{BackendShare, HeldConnection, HeldWorkers, Limits, Place, RouteShare, Shares};
use crate::wire::WorkerShares;

/// What three threads can hold, counted apart from the shares.
struct World {
    shares: Shares,
    /// Kept from before the threads to after them: loom does not see what synchronises an `Arc`.
    backend: Arc<BackendShare>,
    limits: Limits,
    at: Place,
    /// How much of it threads may hold at the same time.
    most: u32,
    inside: AtomicU32,
}

impl World {
    fn new(workers: u32, most: u32, sizes: &WorkerShares) -> Arc<Self> {
        let at = Place { pool: 0, workers, spare: 0 };
        let (shares, limits) = (Shares::default(), Limits::new(sizes));
        let backend = shares.backend("a", "a/b:80");
        Arc::new(Self { shares, backend, limits, at, most, inside: AtomicU32::new(0) })
    }

    fn enter(&self, count: u32) {
        assert!(self.inside.fetch_add(count, Relaxed) + count <= self.most, "more than allowed");
    }

    fn leave(&self, count: u32) {
        self.inside.fetch_sub(count, Relaxed);
    }

    fn hold(&self, route: &Arc<RouteShare>, workers: u32) -> Option<HeldWorkers> {
        route.hold(self.at, &self.limits, workers).ok()
    }
}

/// No limit but the workers.
fn everything() -> WorkerShares {
    let all = WorkerShares::default();
    WorkerShares { namespace: 100, route: 100, backend: 100, web_sockets: 100, ..all }
}

/// Run one thread for each route, with this thread as the last, and look at the end.
fn run(world: &Arc<World>, routes: &[&str], step: fn(&World, &Arc<RouteShare>) -> bool) -> usize {
    let shares: Vec<_> = routes.iter().map(|route| world.shares.route(route)).collect();
    let spawn = |share: &Arc<RouteShare>| {
        let (world, share) = (Arc::clone(world), Arc::clone(share));
        thread::spawn(move || step(&world, &share))
    };
    let others: Vec<_> = shares[1..].iter().map(spawn).collect();
    let mine = step(world, &shares[0]);
    let theirs = others.into_iter().filter_map(|other| other.join().ok());
    let admitted = theirs.chain([mine]).filter(|&admitted| admitted).count();
    assert_eq!(world.shares.held(), 0, "what is held comes back");
    admitted
}

/// Every interleaving with so many preemptions: all of them take hours.
fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

/// A request: a worker for the client and one for the fetch, which the client gives back first.
fn request(world: &World, route: &Arc<RouteShare>) -> bool {
    let Some(mut held) = world.hold(route, 2) else { return false };
    world.enter(2);
    world.leave(1);
    held.keep(1);
    world.leave(1);
    true
}

#[test]
fn workers_never_exceed_their_number_and_all_come_back() {
    model(|| {
        let world = World::new(3, 3, &everything());
        let admitted = run(&world, &["a/one", "a/two", "b/one"], request);
        assert!(admitted > 0, "of several that want the last workers the first gets them");
        assert!(request(&world, &world.shares.route("b/one")), "they are free again");
    });
}

/// Of two at the same moment both may be rejected, where one would have been admitted alone.
#[test]
fn a_route_never_exceeds_its_share() {
    model(|| {
        let sizes = WorkerShares { route: 50, ..everything() };
        let world = World::new(4, 2, &sizes);
        run(&world, &["a/one", "a/one"], request);
        assert!(request(&world, &world.shares.route("a/one")), "it is free again");
    });
}

fn fetch(world: &World, route: &Arc<RouteShare>) -> bool {
    let connected = route.connect(&world.backend, world.at, &world.limits, 2);
    let Ok(held) = connected else { return false };
    world.enter(1);
    let held = held.for_one_worker();
    world.leave(1);
    drop::<HeldConnection>(held);
    true
}

#[test]
fn connections_of_a_route_or_a_backend_never_exceed_their_number() {
    let one_for = |route, backend| WorkerShares {
        route_connections: route,
        backend_connections: backend,
        ..everything()
    };
    let sizes = [
        (one_for(Some(1), None), ["a/one", "a/one", "a/one"]),
        (one_for(None, Some(1)), ["a/one", "a/two", "a/three"]),
    ];
    for (sizes, routes) in sizes {
        model(move || {
            let world = World::new(100, 1, &sizes);
            assert!(run(&world, &routes, fetch) > 0);
            assert!(fetch(&world, &world.shares.route("a/one")), "it is free again");
        });
    }
}

fn open(world: &World, route: &Arc<RouteShare>) -> bool {
    let Ok(_socket) = route.hold_websocket(world.at, &world.limits) else { return false };
    world.enter(1);
    world.leave(1);
    true
}

#[test]
fn web_sockets_never_exceed_their_share() {
    model(|| {
        let sizes = WorkerShares { web_sockets: 1, ..everything() };
        let world = World::new(100, 1, &sizes);
        assert!(run(&world, &["a/one", "a/one", "a/one"], open) > 0);
        assert!(open(&world, &world.shares.route("a/one")), "it is free again");
    });
}
