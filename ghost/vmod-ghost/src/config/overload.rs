//! Rejections by exhausted shares: what people and machines learn of them.

use std::time::{SystemTime, UNIX_EPOCH};

use ghost_core::shares::Exhausted;
use ghost_sync::OncePerSecond;

use super::counters::Counters;
use super::store::shares;

/// Lines in varnishd's log: a flood of requests is no flood of lines.
static LINES: OncePerSecond = OncePerSecond::new();

/// Count a rejected request, and write to varnishd's log, which the gateway's log shows, if
/// nothing was written just before. The route is empty where none matched.
pub fn reject(exhausted: Exhausted, route: &str, counters: &Counters) {
    counters.count_rejection();
    shares().count_rejection(exhausted);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    if LINES.is_due(now) {
        let name = exhausted.name();
        eprintln!("ghost: 503 for route {route:?}: share {name} is exhausted: {exhausted}");
    }
}
