//! How large varnishd's stores are. varnishd doesn't tell the size of a file; what has started
//! varnishd does.

use std::env;
use std::sync::OnceLock;

/// Has names and bytes, such as `s0=8388608,disk=1073741824`.
const VARIABLE: &str = "GHOST_STORES";

/// The bytes of the store of this name, if they are known.
pub fn size(name: &str) -> Option<u64> {
    sizes().iter().find(|(known, _)| known == name).map(|&(_, size)| size)
}

/// The bytes of all stores whose size is known.
pub fn size_of_stores() -> u64 {
    sizes().iter().map(|&(_, size)| size).fold(0, u64::saturating_add)
}

fn sizes() -> &'static [(String, u64)] {
    static SIZES: OnceLock<Vec<(String, u64)>> = OnceLock::new();
    SIZES.get_or_init(|| read(&env::var(VARIABLE).unwrap_or_default()))
}

fn read(list: &str) -> Vec<(String, u64)> {
    let store = |word: &str| {
        let (name, size) = word.split_once('=')?;
        Some((name.to_owned(), size.parse().ok()?))
    };
    list.split(',').filter_map(store).collect()
}
