//! Values by hostname, the most specific first: exact, longest wildcard, any.

use std::sync::Arc;

use super::map::Map;

/// How a hostname matches a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tier<'h> {
    /// It is the host.
    Exact(&'h [u8]),
    /// It is "*." and this suffix of the host.
    Suffix(&'h [u8]),
    /// It is "*".
    Any,
}

impl Tier<'_> {
    pub(super) fn hostname(&self) -> String {
        match self {
            Self::Exact(host) => String::from_utf8_lossy(host).into_owned(),
            Self::Suffix(suffix) => format!("*.{}", String::from_utf8_lossy(suffix)),
            Self::Any => "*".to_owned(),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Hostnames<V> {
    exact: Map<Arc<[u8]>, V>,
    /// By what follows "*.".
    suffix: Map<Arc<[u8]>, V>,
    any: Option<V>,
}

impl<V> Default for Hostnames<V> {
    fn default() -> Self {
        Self { exact: Map::default(), suffix: Map::default(), any: None }
    }
}

impl<V> Hostnames<V> {
    pub(super) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.suffix.is_empty() && self.any.is_none()
    }

    /// The values of every hostname that matches `host`, the most specific first.
    pub(super) fn tiers<'s, 'h>(
        &'s self,
        host: &'h [u8],
    ) -> impl Iterator<Item = (Tier<'h>, &'s V)> + use<'s, 'h, V> {
        let exact = self.exact.get(host).map(|value| (Tier::Exact(host), value));
        let suffixes = suffixes(host)
            .take_while(|_| !self.suffix.is_empty())
            .filter_map(|suffix| Some((Tier::Suffix(suffix), self.suffix.get(suffix)?)));
        let any = self.any.as_ref().map(|value| (Tier::Any, value));
        exact.into_iter().chain(suffixes).chain(any)
    }
}

impl<V: Clone + Default> Hostnames<V> {
    /// Change the value of a hostname; an absent one starts as the default.
    pub(super) fn update(&mut self, hostname: &str, change: impl FnOnce(&mut V)) {
        match kind(hostname) {
            Tier::Exact(host) => self.exact.update(host, change),
            Tier::Suffix(suffix) => self.suffix.update(suffix, change),
            Tier::Any => change(self.any.get_or_insert_with(V::default)),
        }
    }

    /// Change the value of a hostname if there is one, and drop it if `change` returns true.
    pub(super) fn shrink(&mut self, hostname: &str, change: impl FnOnce(&mut V) -> bool) {
        match kind(hostname) {
            Tier::Exact(host) => self.exact.shrink(host, change),
            Tier::Suffix(suffix) => self.suffix.shrink(suffix, change),
            Tier::Any => {
                if self.any.as_mut().is_some_and(change) {
                    self.any = None;
                }
            }
        }
    }
}

fn kind(hostname: &str) -> Tier<'_> {
    match hostname.strip_prefix("*.") {
        Some(suffix) => Tier::Suffix(suffix.as_bytes()),
        None if hostname == "*" => Tier::Any,
        None => Tier::Exact(hostname.as_bytes()),
    }
}

/// What follows each dot of a host, the longest first.
fn suffixes(host: &[u8]) -> impl Iterator<Item = &[u8]> {
    host.iter().enumerate().filter(|(_, &byte)| byte == b'.').map(|(at, _)| &host[at + 1..])
}
