//! Shares: others find workers however much one holds, and the sum never exceeds them.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::thread;

use ghost_core::shares::{Exhausted, HeldWorkers, Limits, Place, RouteShare, SharedLimits, Shares};
use ghost_core::wire;

const AT: Place = Place { pool: 0, workers: 1000, spare: 100 };

/// Hold workers until none is left; what is held, and what was exhausted.
fn fill(route: &Arc<RouteShare>) -> (Vec<HeldWorkers>, Exhausted) {
    let mut held = Vec::new();
    loop {
        match route.hold(AT, &Limits::default(), 1) {
            Ok(worker) => held.push(worker),
            Err(exhausted) => return (held, exhausted),
        }
    }
}

fn requests(route: &Arc<RouteShare>) -> Vec<HeldWorkers> {
    fill(route).0
}

#[test]
fn one_route_holds_half_of_what_its_namespace_may_hold() {
    let shares = Shares::default();
    let (held, exhausted) = fill(&shares.route("a/r"));
    assert_eq!((held.len(), exhausted), (375, Exhausted::Route));
}

#[test]
fn greedy_routes_of_a_namespace_leave_workers_to_its_other_routes() {
    let shares = Shares::default();
    let greedy: Vec<_> = (0..9).map(|n| requests(&shares.route(&format!("a/{n}")))).collect();
    assert!(greedy.iter().all(|held| !held.is_empty()));
    assert_eq!(requests(&shares.route("a/other")).len(), 10);
}

#[test]
fn a_namespace_with_many_routes_leaves_a_quarter_to_the_others() {
    let shares = Shares::default();
    let held: Vec<_> = (0..500).map(|n| requests(&shares.route(&format!("a/{n}")))).collect();
    assert!((740..=750).contains(&held.iter().map(Vec::len).sum::<usize>()));
    assert!(requests(&shares.route("b/r")).len() >= 90);
}

#[test]
fn greedy_namespaces_leave_workers_to_one_that_holds_none() {
    let shares = Shares::default();
    let route = |n: u32, m: u32| requests(&shares.route(&format!("namespace-{n}/{m}")));
    let greedy: Vec<_> =
        (0..9).flat_map(|n| (0..20).map(move |m| (n, m))).map(|(n, m)| route(n, m)).collect();
    assert!(greedy.iter().map(Vec::len).sum::<usize>() >= 875);
    assert!(requests(&shares.route("b/r")).len() >= 5);
}

#[test]
fn the_sum_of_all_shares_never_exceeds_the_workers() {
    let shares = Shares::default();
    let name = |n| format!("namespace-{}/{n}", n % 250);
    let held: Vec<_> = (0..2000).map(|n| requests(&shares.route(&name(n)))).collect();
    assert!(held.iter().map(Vec::len).sum::<usize>() <= 1000);
    assert_eq!(shares.held() as usize, held.iter().map(Vec::len).sum::<usize>());
    drop(held);
    assert_eq!(shares.held(), 0);
}

#[test]
fn websockets_leave_workers_to_the_other_requests_of_their_route() {
    let shares = Shares::default();
    let route = shares.route("a/r");
    let open = || {
        let worker = route.hold(AT, &Limits::default(), 1)?;
        Ok((worker, route.hold_websocket(AT, &Limits::default())?))
    };
    let mut sockets = Vec::new();
    let exhausted = loop {
        match open() {
            Ok(socket) => sockets.push(socket),
            Err(exhausted) => break exhausted,
        }
    };
    assert_eq!((sockets.len(), exhausted), (188, Exhausted::WebSockets));
    assert!(requests(&route).len() > 180);
}

#[test]
fn a_slow_backend_of_many_routes_leaves_workers_to_other_backends() {
    let shares = Shares::default();
    let (slow, other) = (shares.backend("a", "a/slow:80"), shares.backend("a", "a/other:80"));
    let limits = Limits::default();
    let fetch = |route: &Arc<RouteShare>, backend| {
        Ok((route.hold(AT, &limits, 2)?, route.connect(backend, AT, &limits, 2)?))
    };
    let mut held = Vec::new();
    let exhausted = (0..1000)
        .map(|n| shares.route(&format!("a/{n}")))
        .find_map(|route| fetch(&route, &slow).map(|one| held.push(one)).err());
    assert_eq!(exhausted, Some(Exhausted::Backend));
    assert!(fetch(&shares.route("a/other"), &other).is_ok());
}

#[test]
fn slow_requests_of_one_namespace_leave_a_backend_of_both_to_the_other() {
    let (shares, limits) = (Shares::default(), Limits::default());
    let fetch = |namespace: &str, number| {
        let route = shares.route(&format!("{namespace}/{number}"));
        let backend = shares.backend(namespace, "both/b:80");
        Ok((route.hold(AT, &limits, 2)?, route.connect(&backend, AT, &limits, 2)?))
    };
    let mut held = Vec::new();
    let exhausted = (0..1000).find_map(|n| fetch("slow", n).map(|one| held.push(one)).err());
    assert_eq!(exhausted, Some(Exhausted::Backend));
    assert_eq!(fetch("other", 0).err(), None);
}

#[test]
fn connections_of_a_backend_are_those_of_all_namespaces() {
    let shares = Shares::default();
    let sizes =
        wire::WorkerShares { backend_connections: Some(1), ..wire::WorkerShares::default() };
    let limits = Limits::new(&sizes);
    let connect = |namespace: &str| {
        let backend = shares.backend(namespace, "both/b:80");
        shares.route(&format!("{namespace}/r")).connect(&backend, AT, &limits, 2)
    };
    let held = connect("one").unwrap();
    assert_eq!(connect("two").unwrap_err(), Exhausted::BackendConnections);
    drop(held);
    assert!(connect("two").is_ok());
}

#[test]
fn connections_have_limits_of_their_own() {
    let shares = Shares::default();
    let sizes = wire::WorkerShares {
        route_connections: Some(2),
        backend_connections: Some(3),
        ..wire::WorkerShares::default()
    };
    let (limits, backend) = (Limits::new(&sizes), shares.backend("a", "a/b:80"));
    let (one, two) = (shares.route("a/one"), shares.route("a/two"));
    let connect = |route: &Arc<RouteShare>| route.connect(&backend, AT, &limits, 2);
    let held = [connect(&one).unwrap(), connect(&one).unwrap()];
    assert_eq!(connect(&one).unwrap_err(), Exhausted::RouteConnections);
    let third = connect(&two).unwrap();
    assert_eq!(connect(&two).unwrap_err(), Exhausted::BackendConnections);
    drop(third);
    assert!(connect(&two).is_ok());
    drop(held);
    assert!(connect(&one).is_ok());
}

#[test]
fn thread_pools_count_apart() {
    let shares = Shares::default();
    let route = shares.route("a/r");
    let _held = requests(&route);
    let elsewhere = Place { pool: 1, ..AT };
    assert!(route.hold(elsewhere, &Limits::default(), 1).is_ok());
}

#[test]
fn a_route_that_is_removed_and_added_again_finds_what_its_requests_hold() {
    let shares = Shares::default();
    let held = requests(&shares.route("a/r"));
    assert!(requests(&shares.route("a/r")).is_empty());
    drop(held);
    assert!(!requests(&shares.route("a/r")).is_empty());
}

#[test]
fn a_share_of_everything_is_no_limit_but_the_workers() {
    let shares = Shares::default();
    let all = wire::WorkerShares { namespace: 100, route: 100, ..wire::WorkerShares::default() };
    let (route, limits) = (shares.route("a/r"), Limits::new(&all));
    let next = || route.hold(AT, &limits, 1);
    let held: Vec<_> = (0..1000).map(|_| next().unwrap()).collect();
    assert_eq!(next().unwrap_err(), Exhausted::Workers);
    drop(held);
}

#[test]
fn threads_that_hold_at_the_same_time_never_exceed_the_workers() {
    let shares = Shares::default();
    let at = Place { pool: 0, workers: 8, spare: 1 };
    let all = wire::WorkerShares { namespace: 100, route: 100, ..wire::WorkerShares::default() };
    let (limits, sum) = (Limits::new(&all), AtomicUsize::new(0));
    thread::scope(|scope| {
        for n in 0..4 {
            let (shares, limits, sum) = (&shares, &limits, &sum);
            scope.spawn(move || {
                let route = shares.route(&format!("{}/{n}", n % 2));
                for _ in 0..20_000 {
                    let next = |_| route.hold(at, limits, 1).ok();
                    let held: Vec<_> = (0..4).filter_map(next).collect();
                    assert!(sum.fetch_add(held.len(), SeqCst) + held.len() <= 8);
                    sum.fetch_sub(held.len(), SeqCst);
                }
            });
        }
    });
    assert_eq!(shares.held(), 0);
}

#[test]
fn rejected_requests_of_a_namespace_hold_a_quarter_of_the_spare_threads() {
    let shares = Shares::default();
    let (route, other) = (shares.route("a/r"), shares.route("b/r"));
    let waiting = |route: &Arc<RouteShare>, at| -> Vec<_> {
        (0..50).map_while(|_| route.hold_rejection(at)).collect()
    };
    let held = waiting(&route, AT);
    assert_eq!(held.len(), 13); // two threads each
    let others = waiting(&other, AT);
    assert_eq!(others.len(), 6, "half of what others leave");
    assert_eq!(waiting(&shares.route("a/s"), AT).len(), 0, "the namespace holds its part");
    assert!(route.hold_rejection(Place { pool: 1, ..AT }).is_some());
    drop(held);
    assert!(route.hold_rejection(AT).is_some());
    let small = Place { pool: 2, workers: 9, spare: 1 };
    assert_eq!(waiting(&route, small).len(), 1, "there is always room for one");
}

#[test]
fn rejected_requests_of_many_namespaces_hold_half_of_the_spare_threads() {
    let shares = Shares::default();
    let namespaces = (0..100).map(|number| shares.route(&format!("n{number}/r")));
    let held: Vec<_> =
        namespaces.flat_map(|route| (0..50).map_while(move |_| route.hold_rejection(AT))).collect();
    assert_eq!(held.len(), 25);
}

#[test]
fn what_is_no_longer_needed_is_given_back_at_once() {
    let shares = Shares::default();
    let mut held = shares.route("a/r").hold(AT, &Limits::default(), 2).unwrap();
    held.keep(1);
    assert_eq!(shares.held(), 1);
    drop(held);
    assert_eq!(shares.held(), 0);
}

#[test]
fn shared_limits_are_the_default_until_they_are_replaced() {
    let shared = SharedLimits::default();
    assert_eq!(shared.get(), Limits::default());
    let source = wire::WorkerShares {
        namespace: 1,
        route: 2,
        backend: 3,
        web_sockets: 4,
        route_connections: Some(5),
        backend_connections: Some(6),
    };
    shared.set(&Limits::new(&source));
    assert_eq!(shared.get(), Limits::new(&source));
}

#[test]
fn connections_and_websockets_give_back_what_they_hold() {
    let shares = Shares::default();
    let sizes = wire::WorkerShares { backend: 1, web_sockets: 1, ..wire::WorkerShares::default() };
    let (limits, route) = (Limits::new(&sizes), shares.route("a/r"));
    let backend = shares.backend("a", "a/b:80");
    for _ in 0..100 {
        let _workers = route.hold(AT, &limits, 2).unwrap();
        let _socket = route.hold_websocket(AT, &limits).unwrap();
        drop(route.connect(&backend, AT, &limits, 2).unwrap().for_one_worker());
    }
}
