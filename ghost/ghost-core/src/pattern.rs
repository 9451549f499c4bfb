//! Regular expressions of matches.
//!
//! In:  a regular expression in the dialect of the `regex` crate.
//! Out: a [`Pattern`] that matches whole values, or a [`PatternError`] that says what to
//!      change.
//!
//! Matching takes linear time and works on bytes. Tenants write patterns and clients send
//! values, so the time per byte is bounded too. A pattern is compiled to a table that takes
//! one step per byte. Only a small one that fits no table is simulated instead, which takes
//! a step per byte and state; a larger one is rejected. [`steps`](crate::steps) counts them.
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
use regex_automata::nfa::thompson::{self, WhichCaptures, NFA};
use regex_automata::util::start;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Hir, Look};

use crate::steps::{Steps, SIMULATED};

/// The memory that one pattern may use.
const SIZE_LIMIT: usize = 1 << 20;
/// The memory, and so the time (about 25 ms), that building a table may use.
const EFFORT_LIMIT: usize = 512 << 10;
/// About 60 states: small enough to be simulated.
const SMALL: usize = 2 << 10;
/// The memory that the table of a small pattern may use, and building it.
const SMALL_TABLE: usize = 32 << 10;

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
    Table(Arc<dense::DFA<Vec<u32>>>),
    Simulated { regex: meta::Regex, steps: u64 },
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
        let machine = Machine::new(&whole).map_err(|why| too_large(source, &why))?;
        Ok(Self { source: source.into(), literal_prefix, machine })
    }

    /// Whether it matches the whole of `value`.
    #[must_use]
    pub fn matches(&self, value: &[u8]) -> bool {
        self.matches_within(value, &Steps::unlimited())
    }

    /// Whether it matches the whole of `value`; false if that takes too many `steps`.
    pub(crate) fn matches_within(&self, value: &[u8], steps: &Steps) -> bool {
        value.starts_with(&self.literal_prefix)
            && match &self.machine {
                Machine::Table(table) => table_matches(table, value, steps),
                Machine::Simulated { regex, steps: each } => {
                    let affordable = steps.begin(value.len(), *each) == value.len();
                    steps.spend(value.len(), *each);
                    let input = Input::new(value).anchored(Anchored::Yes).earliest(true);
                    affordable && regex.is_match(input)
                }
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

impl Machine {
    /// The machine of a pattern, or why there is none.
    fn new(whole: &Hir) -> Result<Self, String> {
        let Ok(small) = states(whole, SMALL) else {
            let table = table(&states(whole, SIZE_LIMIT)?, SIZE_LIMIT, EFFORT_LIMIT)?;
            return Ok(Self::Table(Arc::new(table)));
        };
        match table(&small, SMALL_TABLE, SMALL_TABLE) {
            Ok(table) => Ok(Self::Table(Arc::new(table))),
            Err(_) => simulated(whole, &small),
        }
    }
}

/// The states of a pattern, if they fit into so many bytes.
fn states(whole: &Hir, limit: usize) -> Result<NFA, String> {
    let config = thompson::Config::new()
        .utf8(false)
        .which_captures(WhichCaptures::None)
        .nfa_size_limit(Some(limit));
    let states = thompson::Compiler::new().configure(config).build_from_hir(whole);
    states.map_err(|_| TOO_MANY_STATES.to_owned())
}

/// The table of a pattern, or why there is none.
///
/// Expected reasons are the size, and `(?u)\b`, which tables don't support.
fn table(states: &NFA, size: usize, effort: usize) -> Result<dense::DFA<Vec<u32>>, String> {
    let config = dense::Config::new()
        .start_kind(StartKind::Anchored)
        .accelerate(false)
        .dfa_size_limit(Some(size))
        .determinize_size_limit(Some(effort));
    let table = dense::Builder::new().configure(config).build_from_nfa(states);
    table.map_err(|error| {
        if error.is_size_limit_exceeded() {
            TOO_MANY_STATES.to_owned()
        } else {
            error.to_string()
        }
    })
}

/// A pattern without a table.
///
/// Lazy tables would match most values faster. But they have a cache in each thread, and no
/// bound on steps that could be counted.
fn simulated(whole: &Hir, states: &NFA) -> Result<Machine, String> {
    let config = meta::Config::new()
        .utf8_empty(false)
        .which_captures(WhichCaptures::None)
        .auto_prefilter(false)
        .dfa(false)
        .hybrid(false)
        .onepass(false)
        .backtrack(false);
    let regex = meta::Builder::new().configure(config).build_from_hir(whole);
    let regex = regex.map_err(|error| error.to_string())?;
    let states = u64::try_from(states.states().len()).unwrap_or(u64::MAX);
    Ok(Machine::Simulated { regex, steps: SIMULATED * states })
}

/// Whether the table matches the whole value. It stops at the first byte that rules that out.
fn table_matches(table: &dense::DFA<Vec<u32>>, value: &[u8], steps: &Steps) -> bool {
    // Only a start without an anchor can fail.
    let Ok(mut state) = table.start_state(&start::Config::new().anchored(Anchored::Yes)) else {
        return false;
    };
    let affordable = &value[..steps.begin(value.len(), 1)];
    for (read, &byte) in affordable.iter().enumerate() {
        state = table.next_state(state, byte);
        if table.is_dead_state(state) {
            steps.spend(read, 1);
            steps.suffice();
            return false;
        }
    }
    steps.spend(affordable.len(), 1);
    !steps.are_exceeded() && table.is_match_state(table.next_eoi_state(state))
}

fn literal_prefix(hir: &Hir) -> Box<[u8]> {
    let literals = Extractor::new().extract(hir);
    literals.longest_common_prefix().unwrap_or_default().into()
}

fn too_large(source: &str, why: &str) -> PatternError {
    PatternError(format!("the regular expression \"{source}\" is too large: {why}"))
}
