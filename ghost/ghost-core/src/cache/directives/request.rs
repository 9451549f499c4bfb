//! Directives of requests.

use super::super::headers::Headers;
use super::{directives, first, Seconds};

/// What a client asks of a cache (RFC 9111, section 5.2.1).
///
/// A window of stale-if-error (RFC 5861, section 4) is none of it: what follows an error is
/// the same for all clients.
///
/// ```
/// use std::time::Duration;
///
/// use ghost_core::cache::{RequestDirectives, Seconds};
///
/// let lines = [("Cache-Control", &b"max-age=60, Max-Stale"[..])];
/// let asked = RequestDirectives::parse(&lines);
/// assert_eq!(asked.max_age, Some(Seconds::Valid(Duration::from_secs(60))));
/// assert_eq!(asked.max_stale, Some(None));
///
/// let pragma = [("Pragma", &b"no-cache"[..])];
/// assert!(RequestDirectives::parse(&pragma).no_cache);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// Validate a stored response before its use.
    pub no_cache: bool,
    /// Don't store the response.
    pub no_store: bool,
    /// Answer from the cache, or with 504.
    pub only_if_cached: bool,
    /// The greatest age.
    pub max_age: Option<Seconds>,
    /// How much longer the response has to be fresh.
    pub min_fresh: Option<Seconds>,
    /// How stale the response may be; without an argument, however stale it is.
    pub max_stale: Option<Option<Seconds>>,
}

impl RequestDirectives {
    /// Read Cache-Control or, where that is absent, Pragma (RFC 9111, section 5.4).
    pub fn parse(request: &impl Headers) -> Self {
        let mut parsed = Self::default();
        let mut any = false;
        for line in request.values("cache-control") {
            any = true;
            parsed.read(line);
        }
        if !any {
            let pragmas = request.values("pragma").flat_map(directives);
            parsed.no_cache = pragmas.into_iter().any(|(pragma, _)| pragma.is("no-cache"));
        }
        parsed
    }

    fn read(&mut self, line: &[u8]) {
        for (directive, _) in directives(line) {
            let argument = directive.argument;
            if directive.is("no-cache") {
                self.no_cache = true;
            } else if directive.is("no-store") {
                self.no_store = true;
            } else if directive.is("only-if-cached") {
                self.only_if_cached = true;
            } else if directive.is("max-age") {
                first(&mut self.max_age, argument);
            } else if directive.is("min-fresh") {
                first(&mut self.min_fresh, argument);
            } else if directive.is("max-stale") {
                let parse = || argument.map(|argument| Seconds::parse(Some(argument)));
                self.max_stale.get_or_insert_with(parse);
            }
        }
    }
}
