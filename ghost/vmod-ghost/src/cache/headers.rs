//! Heads of messages as the cache reads them.

use ghost_core::cache::{Headers, Survey};

use crate::varnish::{value_of, Http, Object};

/// The header with ghost's record of an object. It never leaves ghost.
pub const RECORD: &str = "X-Ghost-Object";
/// The header with ghost's record of its request. It never leaves ghost either.
pub const REQUESTED: &str = "X-Ghost-Requested";

impl Headers for Http<'_> {
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.values(name.as_bytes()).map(|value| -> &'a [u8] { value })
    }
}

impl Headers for Object<'_> {
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.lines().filter_map(|line| value_of(line, name.as_bytes()))
    }
}

/// What of this request decides about the cache.
pub fn survey(http: &Http<'_>) -> Survey {
    let mut found = Survey::default();
    for line in http.lines().filter(|line| Survey::may_concern(line)) {
        let (name, value) = line.split_at(line.iter().position(|&byte| byte == b':').unwrap_or(0));
        found.note(name, value.get(1..).unwrap_or_default());
    }
    found
}
