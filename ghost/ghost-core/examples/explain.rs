//! Which rule serves a request, and why the others do not.
//!
//! `cargo run --example explain -- POST cafe.example.com /tea`

use std::error::Error;
use std::sync::Arc;

use ghost_core::{wire, OwnedRequest, Route, Router};

const ROUTING: &[u8] = br#"{
    "version": 2,
    "listeners": [{"name": "web", "socket": "*", "port": 80}],
    "routes": [
        {"namespace": "shop", "name": "cafe",
         "attachments": [{"listener": "web", "hostnames": ["cafe.example.com"]}],
         "rules": [
            {"name": "menu", "matches": [{"path": {"type": "exact", "value": "/"}}]},
            {"name": "tea", "matches": [{"path": {"type": "prefix", "value": "/tea"}}]},
            {"name": "order", "matches": [{"path": {"type": "prefix", "value": "/tea"}, "method": "POST"}]}]},
        {"namespace": "shop", "name": "fallback",
         "attachments": [{"listener": "web"}],
         "rules": [{"status": 404}]}]}"#;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [method, host, target] = match &arguments[..] {
        [] => ["GET", "cafe.example.com", "/tea"],
        [method, host, target] => [method.as_str(), host, target],
        _ => return Err("usage: explain METHOD HOST TARGET".into()),
    };
    let routing: wire::Routing = wire::decode(ROUTING)?;
    let mut router = Router::new();
    router.set_listeners(&routing.listeners);
    for route in &routing.routes {
        router.insert_route(&Arc::new(Route::compile(route)?), |_| ());
    }

    let request = OwnedRequest::new(method, host, target)?;
    let explanation = router.explain(&request);
    match &explanation.winner {
        Some(winner) => println!("{} serves {method} {host}{target}", winner.rule.identity),
        None => println!("no rule serves {method} {host}{target}"),
    }
    for runner_up in &explanation.runners_up {
        println!("not {}: {}", runner_up.considered.rule.identity, runner_up.loss);
    }
    Ok(())
}
