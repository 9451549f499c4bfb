//! Regular expressions of matches.
//!
//! In:  a regular expression in the dialect of the `regex` crate.
//! Out: a [`Pattern`] that matches whole values, or a [`PatternError`] that says what to
//!      change.
//!
//! Matching takes linear time and works on bytes. Tenants write patterns and clients send
//! values, so the time per byte is bounded too: it may grow with the size of a small
//! pattern; a larger one has to fit a table that takes one step per byte, or else it is
//! rejected.
//!
//! Classes such as `\d` and `\w` are ASCII and `.` is any byte but a newline, as under
//! `(?-u)`: this keeps a compiled pattern small. `(?u)` in a pattern turns Unicode on.
//!
//! ```
//! use ghost_core::Pattern;
//!
//! let pattern = Pattern::new("/api/v[0-9]+")?;
//! assert!(pattern.matches(b"/api/v2"));
//! assert!(!pattern.matches(b"/api/v2/users"));
//! assert_eq!(pattern.literal_prefix(), b"/api/v");
//!
//! let error = Pattern::new("/api/(v1").unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     r#""/api/(v1" is not a regular expression: unclosed group (at byte 5)"#
//! );
//! # Ok::<(), ghost_core::PatternError>(())
//! ```

use std::fmt;
use std::sync::Arc;

use regex_automata::dfa::{dense, Automaton as _, StartKind};
use regex_automata::meta;
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Hir, Look};

/// The memory that one pattern may use.
const SIZE_LIMIT: usize = 1 << 20;
/// The memory, and so the time (about 25 ms), that building a table may use.
const EFFORT_LIMIT: usize = 512 << 10;
/// About 60 states. With all of them active, 32 KB take about 10 ms.
const SMALL: usize = 2 << 10;
/// Lazy DFAs cache states per thread; the default of 2 MiB would be per pattern.
const CACHE_LIMIT: usize = 64 << 10;

const TOO_MANY_STATES: &str =
    "its repetitions or classes make too many states when compiled; use fewer, or smaller ones";

/// A compiled regular expression that must match the whole value.
#[derive(Clone)]
pub struct Pattern {
    source: Box<str>,
    literal_prefix: Box<[u8]>,
    machine: Machine,
}

#[derive(Clone)]
enum Machine {
    Small(meta::Regex),
    Table(Arc<dense::DFA<Vec<u32>>>),
}

/// Why a regular expression is rejected, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError(String);

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PatternError {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.source).finish()
    }
}

impl Pattern {
    /// Compile `source`.
    ///
    /// # Errors
    /// `source` is not a regular expression, or it compiles to too many states.
    pub fn new(source: &str) -> Result<Self, PatternError> {
        let hir = parse(source)?;
        let literal_prefix = literal_prefix(&hir);
        // Joined as syntax trees: in text, a pattern such as "a)|(b" could break out of
        // its parentheses.
        let whole = Hir::concat(vec![Hir::look(Look::Start), hir, Hir::look(Look::End)]);
        let machine = match small(&whole) {
            Some(regex) => Machine::Small(regex),
            None => Machine::Table(Arc::new(table(&whole).map_err(|why| too_large(source, &why))?)),
        };
        Ok(Self { source: source.into(), literal_prefix, machine })
    }

    /// Whether it matches the whole of `value`.
    #[must_use]
    pub fn matches(&self, value: &[u8]) -> bool {
        if !value.starts_with(&self.literal_prefix) {
            return false;
        }
        let input = Input::new(value).anchored(Anchored::Yes).earliest(true);
        match &self.machine {
            Machine::Small(regex) => regex.is_match(input),
            // A search fails only at quit bytes, and the table has none.
            Machine::Table(table) => matches!(table.try_search_fwd(&input), Ok(Some(_))),
        }
    }

    /// The text that it was compiled from.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Bytes that every matching value begins with.
    #[must_use]
    pub fn literal_prefix(&self) -> &[u8] {
        &self.literal_prefix
    }
}

fn parse(source: &str) -> Result<Hir, PatternError> {
    let config = syntax::Config::new().unicode(false).utf8(false);
    syntax::parse_with(source, &config).map_err(|error| {
        let (what, offset) = match &error {
            regex_syntax::Error::Parse(e) => (e.kind().to_string(), e.span().start.offset),
            regex_syntax::Error::Translate(e) => (e.kind().to_string(), e.span().start.offset),
            _ => (error.to_string(), 0),
        };
        PatternError(format!("\"{source}\" is not a regular expression: {what} (at byte {offset})"))
    })
}

/// None if the pattern is not small.
fn small(whole: &Hir) -> Option<meta::Regex> {
    let config = meta::Config::new()
        .utf8_empty(false)
        // No caller reads groups. A table would take seven times as long to build and match
        // no faster.
        .which_captures(WhichCaptures::None)
        .dfa(false)
        .nfa_size_limit(Some(SMALL))
        .hybrid_cache_capacity(CACHE_LIMIT);
    meta::Builder::new().configure(config).build_from_hir(whole).ok()
}

/// The table of a pattern, or why there is none.
///
/// Expected reasons are the size, and `(?u)\b`, which tables don't support.
fn table(whole: &Hir) -> Result<dense::DFA<Vec<u32>>, String> {
    let states = thompson::Config::new()
        .utf8(false)
        .which_captures(WhichCaptures::None)
        .nfa_size_limit(Some(SIZE_LIMIT));
    let states = thompson::Compiler::new().configure(states).build_from_hir(whole);
    let states = states.map_err(|_| TOO_MANY_STATES)?;
    let table = dense::Config::new()
        .start_kind(StartKind::Anchored)
        .accelerate(false)
        .dfa_size_limit(Some(SIZE_LIMIT))
        .determinize_size_limit(Some(EFFORT_LIMIT));
    let table = dense::Builder::new().configure(table).build_from_nfa(&states);
    table.map_err(|error| {
        if error.is_size_limit_exceeded() {
            TOO_MANY_STATES.to_owned()
        } else {
            error.to_string()
        }
    })
}

fn literal_prefix(hir: &Hir) -> Box<[u8]> {
    let literals = Extractor::new().extract(hir);
    literals.longest_common_prefix().unwrap_or_default().into()
}

fn too_large(source: &str, why: &str) -> PatternError {
    PatternError(format!("the regular expression \"{source}\" is too large: {why}"))
}
