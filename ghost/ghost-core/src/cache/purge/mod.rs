//! An invalidation that the data plane asks for.
//!
//! In:  JSON, and what the Gateway does with paths; then a clock, and what invalidates a target.
//! Out: a [`Purge`], with hosts and targets as requests have them; or what is wrong with it, and
//!      where. Nothing is carried out then. Of one that is carried out, what each target hit, and
//!      how many targets were left when the time was over.
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

pub mod methods;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::budget::ROUTE_BUDGET;
use crate::cache::index::{Mode, Scope};
use crate::steps::Steps;
use crate::target::{self, PathRules};
use crate::wire::{self, DecodeError, InvalidationMode, InvalidationTarget};
use crate::{Host, Pattern};

/// The most targets of an invalidation. Each of them may be any number of tags.
pub const MOST_TARGETS: usize = 10_000;

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
    /// What it is restricted to; None: to nothing.
    pub owners: Option<Owners>,
    /// What it names.
    pub targets: Vec<Named>,
}

/// Whose objects an invalidation is restricted to.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    /// Those of all routes of these namespaces.
    pub namespaces: Vec<String>,
    /// Those of these routes, `namespace/name`.
    pub routes: Vec<String>,
}

/// How far an invalidation has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// How many objects each target hit that was carried out, in their order.
    pub objects: Vec<u64>,
    /// How many targets were not carried out, or not to their end, because the time was over.
    pub left: usize,
}

/// The time that an invalidation has.
pub struct Deadline<'a> {
    is_over: &'a (dyn Fn() -> bool + Sync),
    was_over: AtomicBool,
}

impl Deadline<'_> {
    /// Whether a pattern matches path and query, as a condition of a target. These have as many
    /// steps as a request; what takes more counts as matched, for an invalidation must not miss
    /// anything. Nothing matches any more once the time is over: the target counts as left then.
    #[must_use]
    pub fn matches(&self, pattern: &Pattern, target: &[u8]) -> bool {
        if (self.is_over)() {
            self.was_over.store(true, Relaxed);
            return false;
        }
        let steps = Steps::of_request();
        pattern.matches_within(target, &steps) || steps.are_exceeded()
    }
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
        if source.targets.len() > MOST_TARGETS {
            let count = source.targets.len();
            let message = format!(
                "has {count} targets, and {MOST_TARGETS} is the limit; send several \
                 invalidations, or name many tags in one target"
            );
            return Err(error("targets", &message));
        }
        let mut compiling = Compiling::new(paths);
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
        let is_restricted = source.routes.is_some() || source.namespaces.is_some();
        let owners = is_restricted.then(|| Owners {
            namespaces: source.namespaces.unwrap_or_default(),
            routes: source.routes.unwrap_or_default(),
        });
        Ok(Self { mode, owners, targets: targets.collect::<Result<_, _>>()? })
    }

    /// Carry out the targets, one after the other, until the time is over.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    ///
    /// use ghost_core::cache::purge::{Done, Purge};
    /// use ghost_core::target::PathRules;
    ///
    /// let json = br#"{"targets": [{"host": "a.example"}, {"everything": true}, {"tags": ["x"]}]}"#;
    /// let purge = Purge::read(json, &PathRules::default())?;
    /// let clock = AtomicU64::new(0);
    /// let done = purge.carry_out(&|| clock.load(Relaxed) >= 20, |_, _, _| {
    ///     clock.fetch_add(11, Relaxed);
    ///     7
    /// });
    /// assert_eq!(done, Done { objects: vec![7, 7], left: 1 });
    /// assert_eq!(
    ///     done.unfinished().as_deref(),
    ///     Some("2 targets took too long; send the other 1 again")
    /// );
    /// # Ok::<(), ghost_core::wire::DecodeError>(())
    /// ```
    pub fn carry_out(
        &self,
        is_over: &(dyn Fn() -> bool + Sync),
        mut invalidate: impl FnMut(&Named, Scope<'_>, &Deadline<'_>) -> u64,
    ) -> Done {
        self.with_scope(|scope| self.carry_out_within(scope, is_over, &mut invalidate))
    }

    /// Do something with what it is restricted to.
    pub fn with_scope<T>(&self, act: impl FnOnce(Scope<'_>) -> T) -> T {
        let Some(owners) = &self.owners else { return act(Scope::All) };
        let (namespaces, routes) = (texts(&owners.namespaces), texts(&owners.routes));
        act(Scope::Owners { namespaces: &namespaces, routes: &routes })
    }

    fn carry_out_within(
        &self,
        scope: Scope<'_>,
        is_over: &(dyn Fn() -> bool + Sync),
        invalidate: &mut dyn FnMut(&Named, Scope<'_>, &Deadline<'_>) -> u64,
    ) -> Done {
        let mut objects = Vec::new();
        for named in &self.targets {
            if is_over() {
                break;
            }
            let deadline = Deadline { is_over, was_over: AtomicBool::new(false) };
            let count = invalidate(named, scope, &deadline);
            if deadline.was_over.into_inner() {
                break;
            }
            objects.push(count);
        }
        Done { left: self.targets.len() - objects.len(), objects }
    }
}

impl Done {
    /// What to tell the client if the time did not suffice.
    #[must_use]
    pub fn unfinished(&self) -> Option<String> {
        let (done, left) = (self.objects.len(), self.left);
        (left > 0).then(|| format!("{done} targets took too long; send the other {left} again"))
    }
}

/// What compiles the targets of one invalidation.
struct Compiling<'a> {
    paths: &'a PathRules,
    /// For all patterns, as for those of a route.
    charge: usize,
}

impl<'a> Compiling<'a> {
    fn new(paths: &'a PathRules) -> Self {
        Self { paths, charge: 0 }
    }

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

fn texts(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
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
