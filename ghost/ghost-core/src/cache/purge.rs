//! An invalidation that the data plane asks for.
//!
//! In:  JSON, and what the Gateway does with paths.
//! Out: a [`Purge`], with hosts and targets as requests have them; or what is wrong with it, and
//!      where. Nothing is carried out then.
//!
//! ```
//! use ghost_core::cache::purge::{Named, Purge};
//! use ghost_core::target::PathRules;
//!
//! let read = |text: &str| Purge::read(text.as_bytes(), &PathRules::default());
//! let purge = read(r#"{"mode": "soft", "targets": [
//!     {"uri": {"host": "Tea.example.:80", "target": "/a/../list?page=2"}}, {"tags": ["a%2Cb"]}]}"#)?;
//! let [Named::Uri { host, target }, Named::Tags(tags)] = &purge.targets[..] else { panic!() };
//! assert_eq!((&host[..], &target[..]), (&b"tea.example"[..], &b"/list?page=2"[..]));
//! assert_eq!(tags, &[b"a,b"]);
//!
//! let why = |text| read(text).map(|_| ()).unwrap_err().to_string();
//! assert_eq!(
//!     why(r#"{"targets": [{"matching": {"host": "a.example", "pattern": "("}}]}"#),
//!     r#"targets[0].matching.pattern: "(" is not a regular expression: unclosed group (at byte 0)"#
//! );
//! assert_eq!(
//!     why(r#"{"targets": [{"tags": ["x", "100%"]}]}"#),
//!     "targets[0].tags[1]: % stands before two hexadecimal digits; write %25 for % itself"
//! );
//! # Ok::<(), ghost_core::wire::DecodeError>(())
//! ```

use super::index::Mode;
use crate::budget::ROUTE_BUDGET;
use crate::steps::Steps;
use crate::target::{self, PathRules};
use crate::wire::{self, DecodeError, InvalidationMode, InvalidationTarget};
use crate::{Host, Pattern};

/// What an invalidation names.
#[derive(Clone, Debug)]
pub enum Named {
    /// A URI.
    Uri {
        /// The host.
        host: Box<[u8]>,
        /// Path and query.
        target: Box<[u8]>,
    },
    /// URIs that begin alike.
    Prefix {
        /// The host.
        host: Box<[u8]>,
        /// The beginning of path and query.
        prefix: Box<[u8]>,
    },
    /// URIs in which a pattern matches.
    Matching {
        /// The host.
        host: Box<[u8]>,
        /// Matches path and query as a whole.
        pattern: Pattern,
    },
    /// All of a host.
    Host(Box<[u8]>),
    /// Objects with one of these tags.
    Tags(Vec<Vec<u8>>),
    /// All of a route.
    Route(String),
    /// All of them.
    Everything,
}

/// An invalidation. See the [module](self) for an example.
#[derive(Clone, Debug)]
pub struct Purge {
    /// What happens to the objects.
    pub mode: Mode,
    /// The routes that it is restricted to.
    pub routes: Option<Vec<String>>,
    /// What it names.
    pub targets: Vec<Named>,
}

impl Purge {
    /// Read one.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn read(json: &[u8], paths: &PathRules) -> Result<Self, DecodeError> {
        let source: wire::Invalidation = wire::decode(json)?;
        if source.targets.is_empty() {
            return Err(error("targets", "is empty; name one at least"));
        }
        let mut compiling = Compiling { paths, charge: 0 };
        let targets = source.targets.into_iter().enumerate();
        let targets = targets.map(|(number, target)| {
            compiling.named(target).map_err(|fault| DecodeError {
                path: format!("targets[{number}].{}", fault.path),
                message: fault.message,
            })
        });
        let mode = match source.mode {
            InvalidationMode::Soft => Mode::Soft,
            InvalidationMode::Hard => Mode::Hard,
        };
        Ok(Self { mode, routes: source.routes, targets: targets.collect::<Result<_, _>>()? })
    }
}

/// Whether a pattern matches path and query. These have as many steps as a request; what takes more
/// counts as matched, for an invalidation must not miss anything.
#[must_use]
pub fn matches(pattern: &Pattern, target: &[u8]) -> bool {
    let steps = Steps::of_request();
    pattern.matches_within(target, &steps) || steps.are_exceeded()
}

struct Compiling<'a> {
    paths: &'a PathRules,
    /// For all patterns, as for those of a route.
    charge: usize,
}

impl Compiling<'_> {
    fn named(&mut self, target: InvalidationTarget) -> Result<Named, DecodeError> {
        Ok(match target {
            InvalidationTarget::Uri(uri) => Named::Uri {
                host: host(&uri.host, "uri.host")?,
                target: self.target(&uri.target, "uri.target")?,
            },
            InvalidationTarget::Prefix(named) => Named::Prefix {
                host: host(&named.host, "prefix.host")?,
                prefix: self.prefix(&named.prefix, "prefix.prefix")?,
            },
            InvalidationTarget::Matching(named) => Named::Matching {
                host: host(&named.host, "matching.host")?,
                pattern: self.pattern(&named.pattern, "matching.pattern")?,
            },
            InvalidationTarget::Host(name) => Named::Host(host(&name, "host")?),
            InvalidationTarget::Tags(tags) => Named::Tags(
                tags.iter()
                    .enumerate()
                    .map(|(at, text)| tag(at, text))
                    .collect::<Result<_, _>>()?,
            ),
            InvalidationTarget::Route(name) => Named::Route(name),
            InvalidationTarget::Everything(true) => Named::Everything,
            InvalidationTarget::Everything(false) => {
                return Err(error("everything", "is false; write true, or leave it out"))
            }
        })
    }

    fn target(&self, text: &str, field: &str) -> Result<Box<[u8]>, DecodeError> {
        let merged = self.paths.apply(text.as_bytes());
        let malformed = "is no path and query that a client can request here; begin with /";
        let merged = merged.map_err(|_| error(field, malformed))?;
        let normal = target::normalise(&merged, b"GET").map_err(|_| error(field, malformed))?;
        let is_plain = !normal.contains(&0);
        is_plain.then(|| normal[..].into()).ok_or_else(|| error(field, malformed))
    }

    /// Its last segment may not be complete, so that dots stay.
    fn prefix(&self, text: &str, field: &str) -> Result<Box<[u8]>, DecodeError> {
        let malformed = || error(field, "is the beginning of no path; begin with /");
        let merged = self.paths.apply(text.as_bytes()).map_err(|_| malformed())?;
        let is_plain = merged.starts_with(b"/") && !merged.iter().any(|byte| b"\0#".contains(byte));
        is_plain.then(|| merged[..].into()).ok_or_else(malformed)
    }

    fn pattern(&mut self, text: &str, field: &str) -> Result<Pattern, DecodeError> {
        let over_budget = |charge| {
            format!("the regular expressions take {charge} bytes, more than the budget of {ROUTE_BUDGET}")
        };
        if self.charge > ROUTE_BUDGET {
            return Err(error(field, &over_budget(self.charge)));
        }
        let (pattern, charge) = Pattern::containing(text);
        self.charge = self.charge.saturating_add(charge);
        let pattern = pattern.map_err(|reason| error(field, &reason.to_string()))?;
        let affordable = self.charge <= ROUTE_BUDGET;
        affordable.then_some(pattern).ok_or_else(|| error(field, &over_budget(self.charge)))
    }
}

fn host(text: &str, field: &str) -> Result<Box<[u8]>, DecodeError> {
    let host = Host::parse(text.as_bytes()).ok().filter(|host| !host.is_empty());
    let host = host.ok_or_else(|| error(field, "is no host name, such as tea.example.com"))?;
    Ok(host[..].into())
}

/// UTF-8, with `%` before two hexadecimal digits for any byte.
fn tag(at: usize, text: &str) -> Result<Vec<u8>, DecodeError> {
    let field = format!("tags[{at}]");
    if text.is_empty() {
        return Err(error(&field, "is empty"));
    }
    let mut parts = text.as_bytes().split(|&byte| byte == b'%');
    let mut tag = parts.next().unwrap_or(b"").to_vec();
    for part in parts {
        let byte = part.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let byte = byte.and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = byte.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let malformed = "% stands before two hexadecimal digits; write %25 for % itself";
        tag.push(byte.ok_or_else(|| error(&field, malformed))?);
        tag.extend_from_slice(&part[2..]);
    }
    Ok(tag)
}

fn error(field: &str, message: &str) -> DecodeError {
    DecodeError { path: field.to_owned(), message: message.to_owned() }
}
