//! Directives of responses.

use super::super::headers::Headers;
use super::super::syntax::{is_token, list};
use super::{directives, first, Argument, Directive, Seconds};

/// How far `no-cache` or `private` reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Restriction {
    /// It is absent.
    #[default]
    None,
    /// It names fields; the rest of the response is not restricted.
    Fields,
    /// The whole response.
    Whole,
}

/// What an origin says about caching (RFC 9111, section 5.2.2; RFC 5861; RFC 8246).
///
/// ```
/// use ghost_core::cache::{ResponseDirectives, Restriction, Seconds};
///
/// let lines = [("Cache-Control", &br#"max-age=60, private="Set-Cookie", immutable"#[..])];
/// let directives = ResponseDirectives::parse(lines[0].1);
/// assert_eq!(directives.max_age.unwrap().or_zero().as_secs(), 60);
/// assert_eq!(directives.private, Restriction::Fields);
/// assert!(directives.immutable);
///
/// assert_eq!(ResponseDirectives::parse(b"max-age=1.5").max_age, Some(Seconds::Invalid));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // the directives are what they are
pub struct ResponseDirectives {
    /// Don't store it.
    pub no_store: bool,
    /// Validate it before each use.
    pub no_cache: Restriction,
    /// Don't store it in a shared cache.
    pub private: Restriction,
    /// Any cache may store it.
    pub public: bool,
    /// Never use it stale.
    pub must_revalidate: bool,
    /// Never use it stale in a shared cache.
    pub proxy_revalidate: bool,
    /// Store it only if its status is understood, and ignore `no-store` then.
    pub must_understand: bool,
    /// It doesn't change while it is fresh.
    pub immutable: bool,
    /// A quote is never closed: what follows it may have been meant to be within, so that
    /// its restrictions count, and its lifetime does not.
    pub malformed: bool,
    /// Its lifetime.
    pub max_age: Option<Seconds>,
    /// Its lifetime in shared caches.
    pub s_maxage: Option<Seconds>,
    /// How stale it may be used while it is validated.
    pub stale_while_revalidate: Option<Seconds>,
    /// How stale it may be used if the origin fails.
    pub stale_if_error: Option<Seconds>,
}

impl ResponseDirectives {
    /// Read one line of Cache-Control.
    #[must_use]
    pub fn parse(line: &[u8]) -> Self {
        let mut parsed = Self::default();
        parsed.read(line);
        parsed
    }

    /// Read all lines of Cache-Control.
    pub fn of(response: &impl Headers) -> Self {
        let mut parsed = Self::default();
        response.values("cache-control").for_each(|line| parsed.read(line));
        parsed
    }

    pub(super) fn read(&mut self, line: &[u8]) {
        for (directive, unclosed) in directives(line) {
            self.apply(directive);
            self.malformed |= unclosed;
        }
    }

    fn apply(&mut self, directive: Directive<'_>) {
        let argument = directive.argument;
        if directive.is("max-age") {
            first(&mut self.max_age, argument);
        } else if directive.is("s-maxage") {
            first(&mut self.s_maxage, argument);
        } else if directive.is("stale-while-revalidate") {
            first(&mut self.stale_while_revalidate, argument);
        } else if directive.is("stale-if-error") {
            first(&mut self.stale_if_error, argument);
        } else if directive.is("no-cache") {
            self.no_cache = self.no_cache.max(restriction(argument));
        } else if directive.is("private") {
            self.private = self.private.max(restriction(argument));
        } else if let Some(flag) = self.flag(directive) {
            *flag = true;
        }
    }

    fn flag(&mut self, directive: Directive<'_>) -> Option<&mut bool> {
        let flags = [
            ("no-store", &mut self.no_store),
            ("public", &mut self.public),
            ("must-revalidate", &mut self.must_revalidate),
            ("proxy-revalidate", &mut self.proxy_revalidate),
            ("must-understand", &mut self.must_understand),
            ("immutable", &mut self.immutable),
        ];
        flags.into_iter().find(|(name, _)| directive.is(name)).map(|(_, flag)| flag)
    }
}

/// What can't be read as a list of names restricts the whole response.
fn restriction(argument: Option<Argument<'_>>) -> Restriction {
    let named = argument.is_some_and(|argument| {
        !argument.malformed
            && names(argument.text).next().is_some()
            && names(argument.text).all(is_token)
    });
    if named {
        Restriction::Fields
    } else {
        Restriction::Whole
    }
}

fn names(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    list::members(text).map(|member| member.text)
}

/// The fields that `no-cache="…"` and `private="…"` name: a stored response is delivered
/// without them (RFC 9111, sections 5.2.2.4 and 5.2.2.7).
///
/// ```
/// use ghost_core::cache::directives::withheld_fields;
///
/// let lines = [("Cache-Control", &br#"private="Set-Cookie, X-User", max-age=60"#[..])];
/// let names: Vec<_> = withheld_fields(&lines).collect();
/// assert_eq!(names, [&b"Set-Cookie"[..], b"X-User"]);
/// ```
pub fn withheld_fields(response: &impl Headers) -> impl Iterator<Item = &[u8]> {
    let lines =
        ["cache-control", "cdn-cache-control"].into_iter().flat_map(|field| response.values(field));
    lines.flat_map(directives).flat_map(|(directive, _)| {
        let restricts = directive.is("no-cache") || directive.is("private");
        let argument = directive.argument.filter(|_| restricts);
        names(argument.map_or(&b""[..], |argument| argument.text)).filter(|name| is_token(name))
    })
}
