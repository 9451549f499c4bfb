//! The CPU time of the most expensive lookups that regular expressions can cause.
//!
//! `cargo run --release --example worst`
//!
//! Every kind of pattern is one that a route may have. Together they cost about as many steps as
//! a request may take, or more: then the lookup is an error.

use std::hint::black_box;
use std::sync::Arc;
use std::{env, fs};

use ghost_core::{wire, OwnedRequest, Route, Router};

/// How many routes, each with so many header matches, and the value of the header.
struct Case {
    name: &'static str,
    routes: usize,
    matches: usize,
    pattern: fn(usize) -> String,
    values: Vec<Vec<u8>>,
}

fn router(case: &Case) -> Router<()> {
    let mut router = Router::new();
    router.set_listeners(&[wire::Listener { name: "web".into(), ..wire::Listener::default() }]);
    for n in 0..case.routes {
        let a_match = |m: usize| wire::Match {
            headers: vec![wire::ValueMatch {
                name: "x".into(),
                value: (case.pattern)(n * case.matches + m),
                r#type: wire::ValueMatchType::Regex,
            }],
            ..wire::Match::default()
        };
        let rule = wire::Rule {
            matches: (0..case.matches).map(a_match).collect(),
            ..wire::Rule::default()
        };
        let route = wire::Route {
            namespace: "ns".into(),
            name: format!("r{n}"),
            created: 0,
            attachments: vec![wire::Attachment {
                listener: "web".into(),
                hostnames: vec!["*".into()],
            }],
            rules: vec![rule],
        };
        match Route::compile(&route) {
            Ok(route) => router.insert_route(&Arc::new(route), |_| ()),
            Err(error) => {
                println!("{}: {error}", case.name);
                break;
            }
        };
    }
    router
}

/// The nanoseconds that this thread has been on a processor.
fn cpu() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|field| field.parse().ok()).unwrap_or(0)
}

fn random(length: usize, of: &[u8]) -> Vec<u8> {
    let mut seed = 88_172_645_463_325_252_u64;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    (0..length).map(|_| of[usize::try_from(next() >> 33).unwrap_or(0) % of.len()]).collect()
}

/// A pattern with a table of 2^`bits` states, and too many other states to be simulated.
fn large(n: usize, bits: usize) -> String {
    format!("{}|(?:a|b)*a(?:a|b){{{bits}}}x{n}", "q".repeat(80))
}

fn cases() -> Vec<Case> {
    let one = |name, routes, matches, pattern, value| Case {
        name,
        routes,
        matches,
        pattern,
        values: vec![value],
    };
    let long = 30 << 10;
    let umlauts = || "ä".repeat(1 << 9).into_bytes();
    vec![
        one("small tables", 128, 1, |n| format!(".*b{n}"), vec![b'a'; long]),
        one("tables of 2^8", 64, 1, |n| format!("(?:a|b)*a(?:a|b){{8}}x{n}"), random(long, b"ab")),
        one(
            "wide tables",
            64,
            1,
            |n| format!(".*[a-m].{{6}}x{n}"),
            random(long, b"abmnopqrstuvwxyz"),
        ),
        one("simulated", 64, 1, |n| format!(".*a[a-z]{{15}}-{n}"), vec![b'a'; 4 << 10]),
        one(
            "simulated, empty loops",
            64,
            1,
            |n| format!(".*a(?:a?b?){{9}}c.{{9}}x{n}"),
            vec![b'a'; 4 << 10],
        ),
        one("Unicode boundaries", 64, 1, |n| format!("(?u).*(?:\\b|ä){{8}}x{n}"), umlauts()),
        one("no Unicode boundaries", 64, 1, |n| format!("(?u).*(?:\\B|ä){{8}}x{n}"), umlauts()),
        one("large tables", 60, 1, |n| large(n, 11), random(long, b"ab")),
        one("larger tables", 60, 1, |n| large(n, 12), random(long, b"ab")),
        one("largest tables", 60, 1, |n| large(n, 13), random(long, b"ab")),
        one("many", 2_000, 32, |n| format!("[b-z]{n}"), b"a".to_vec()),
        one("many with a prefix", 2_000, 32, |n| format!("b{n}.*"), b"a".to_vec()),
        Case {
            name: "joined lines",
            routes: 300,
            matches: 32,
            pattern: |n| format!("[b-z]{n}"),
            values: vec![vec![b'a'; long / 2]; 2],
        },
    ]
}

fn main() {
    let only = env::args().nth(1);
    for case in cases() {
        if only.as_ref().is_some_and(|only| *only != case.name) {
            continue;
        }
        let router = router(&case);
        let request = OwnedRequest::new("GET", "h", "/");
        let mut request = request.unwrap_or_else(|error| unreachable!("{error}"));
        for value in &case.values {
            request = request.with_header("x", value.clone());
        }
        let over = router.find(&request).is_err();
        let began = cpu();
        for _ in 0..40 {
            let _ = black_box(router.find(black_box(&request)));
        }
        let each = (cpu() - began) / 40;
        println!(
            "{:>24}: {:>8} us{}",
            case.name,
            each / 1000,
            if over { ", over budget" } else { "" }
        );
    }
}
