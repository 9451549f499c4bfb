//! Regular expressions of matches.
//!
//! In:  a regular expression in the dialect of the `regex` crate.
//! Out: a [`Pattern`] that matches whole values, or a [`PatternError`] that says what to
//!      change.
//!
//! Matching takes linear time and works on bytes. Tenants write patterns and clients send
//! values, so the time per byte is bounded too. A pattern is compiled to a table that takes
//! one step per byte, and more if it is large. Only a small one that fits no table is simulated instead, which takes
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
use regex_syntax::hir::{Dot, Hir, Look, Repetition};

use crate::steps::{Steps, CACHED, SIMULATED};

pub mod budget;
mod shared;

/// The memory that one pattern may use.
const SIZE_LIMIT: usize = 1 << 20;
/// The memory that building a table may use, and so the time. Each limit is tried if the one
/// before does not suffice, and charged, so that the charge of a pattern tells how much work it
/// was: less than 30 ms for each MiB.
const EFFORTS: [usize; 4] = [8 << 10, 32 << 10, 128 << 10, 512 << 10];
/// The charge for a pattern itself, and for each byte of its text.
const CHARGE: (usize, usize) = (1 << 10, 64);
/// The charge for a simulated pattern, which has a small cache in each thread.
const SIMULATED_CHARGE: usize = 32 << 10;
/// About 60 states: small enough to be simulated.
const SMALL: usize = 2 << 10;
/// How many of the efforts to spend on the table of a small pattern.
const SMALL_EFFORTS: usize = 2;

const TOO_MANY_STATES: &str =
    "its repetitions or classes make too many states when compiled; use fewer, or smaller ones";

/// A compiled regular expression that must match the whole value.
///
/// Patterns of the same text share their memory, also across routes.
#[derive(Clone)]
pub struct Pattern(Arc<Compiled>);

struct Compiled {
    source: Box<str>,
    literal_prefix: Box<[u8]>,
    machine: Machine,
    charge: usize,
}

enum Machine {
    Table { table: Box<dense::DFA<Vec<u32>>>, steps: u64 },
    Simulated { regex: meta::Regex, steps: u64 },
}

/// Why a regular expression is rejected, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    text: String,
    over_budget: bool,
}

impl PatternError {
    fn new(text: String) -> Self {
        Self { text, over_budget: false }
    }

    pub(crate) fn over_budget(patterns: usize, spent: usize, budget: usize) -> Self {
        let text = format!(
            "{patterns} of the route's regular expressions take {spent} bytes, more than the \
             budget of {budget}; use fewer or simpler ones, or split the route"
        );
        Self { text, over_budget: true }
    }

    /// Whether the patterns of the route exceed their [`budget`](crate::budget).
    #[must_use]
    pub fn is_over_budget(&self) -> bool {
        self.over_budget
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for PatternError {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.0.source).finish()
    }
}

impl Pattern {
    /// Compile `source`.
    ///
    /// # Errors
    /// `source` is not a regular expression, or it compiles to too many states.
    pub fn new(source: &str) -> Result<Self, PatternError> {
        Self::compile(source).0
    }

    /// Compile `source`, and say what to charge a route for that, also if it fails.
    pub fn compile(source: &str) -> (Result<Self, PatternError>, usize) {
        if let Some(shared) = shared::get(source) {
            let charge = shared.charge;
            return (Ok(Self(shared)), charge);
        }
        let mut charge = charge(source);
        let compiled = Compiled::new(source, &mut charge);
        (compiled.map(|compiled| Self(shared::insert(compiled))), charge)
    }

    /// Compile `source` to a pattern of values that have a match anywhere. It shares its memory
    /// with no other pattern. Also what to charge for it.
    ///
    /// ```
    /// use ghost_core::Pattern;
    ///
    /// let pattern = Pattern::containing("^/v1/.*[.]css").0?;
    /// assert!(pattern.matches(b"/v1/site.css?x"));
    /// assert!(!pattern.matches(b"/v2/v1/site.css"));
    /// assert_eq!(pattern.literal_prefix(), b"/v1/");
    /// assert!(Pattern::containing("css").0?.matches(b"/v2/site.css?x"));
    /// # Ok::<(), ghost_core::PatternError>(())
    /// ```
    pub fn containing(source: &str) -> (Result<Self, PatternError>, usize) {
        let mut charge = charge(source);
        let compiled = Compiled::containing(source, &mut charge);
        (compiled.map(|compiled| Self(Arc::new(compiled))), charge)
    }

    /// What it takes from the [`budget`](crate::budget) of a route, in bytes.
    #[must_use]
    pub fn charge(&self) -> usize {
        self.0.charge
    }

    /// Whether it matches the whole of `value`.
    #[must_use]
    pub fn matches(&self, value: &[u8]) -> bool {
        self.matches_within(value, &Steps::unlimited())
    }

    /// Whether it matches the whole of `value`; false if that takes too many `steps`.
    pub(crate) fn matches_within(&self, value: &[u8], steps: &Steps) -> bool {
        steps.try_one()
            && value.starts_with(&self.0.literal_prefix)
            && match &self.0.machine {
                Machine::Table { table, steps: each } => table_matches(table, value, steps, *each),
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
        &self.0.source
    }

    /// Bytes that every matching value begins with.
    #[must_use]
    pub fn literal_prefix(&self) -> &[u8] {
        &self.0.literal_prefix
    }
}

fn charge(source: &str) -> usize {
    let (base, per_byte) = CHARGE;
    base + per_byte * source.len()
}

fn parse(source: &str) -> Result<Hir, PatternError> {
    let config = syntax::Config::new().unicode(false).utf8(false);
    syntax::parse_with(source, &config).map_err(|error| {
        let (what, offset) = match &error {
            regex_syntax::Error::Parse(e) => (e.kind().to_string(), e.span().start.offset),
            regex_syntax::Error::Translate(e) => (e.kind().to_string(), e.span().start.offset),
            _ => (error.to_string(), 0),
        };
        PatternError::new(format!(
            "\"{source}\" is not a regular expression: {what} (at byte {offset})"
        ))
    })
}

impl Compiled {
    /// Compile `source` and add the work to `charge`.
    fn new(source: &str, charge: &mut usize) -> Result<Self, PatternError> {
        let hir = parse(source)?;
        let literal_prefix = literal_prefix(&hir);
        // Joined as syntax trees: in text, a pattern such as "a)|(b" could break out of
        // its parentheses.
        let whole = Hir::concat(vec![Hir::look(Look::Start), hir, Hir::look(Look::End)]);
        Self::of(source, &whole, literal_prefix, charge)
    }

    fn containing(source: &str, charge: &mut usize) -> Result<Self, PatternError> {
        let hir = parse(source)?;
        let at_start = hir.properties().look_set_prefix().contains(Look::Start);
        let literal_prefix = if at_start { literal_prefix(&hir) } else { Box::default() };
        let mut parts = vec![Hir::look(Look::Start), hir, any_bytes()];
        if !at_start {
            parts.insert(1, any_bytes());
        }
        Self::of(source, &Hir::concat(parts), literal_prefix, charge)
    }

    fn of(
        source: &str,
        whole: &Hir,
        literal_prefix: Box<[u8]>,
        charge: &mut usize,
    ) -> Result<Self, PatternError> {
        let machine = Machine::new(whole, charge).map_err(|why| too_large(source, &why))?;
        Ok(Self { source: source.into(), literal_prefix, machine, charge: *charge })
    }
}

impl Machine {
    /// The machine of a pattern, or why there is none. What it takes is added to `charge`.
    fn new(whole: &Hir, charge: &mut usize) -> Result<Self, String> {
        let Ok(small) = states(whole, SMALL) else {
            let large = states(whole, SIZE_LIMIT);
            // Building states up to the limit is work too.
            *charge += large.as_ref().map_or(SIZE_LIMIT / 4, NFA::memory_usage);
            return table(&large?, &EFFORTS, charge);
        };
        table(&small, &EFFORTS[..SMALL_EFFORTS], charge).or_else(|_| {
            *charge += SIMULATED_CHARGE;
            simulated(whole, &small)
        })
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
fn table(states: &NFA, efforts: &[usize], charge: &mut usize) -> Result<Machine, String> {
    for &effort in efforts {
        let config = dense::Config::new()
            .start_kind(StartKind::Anchored)
            .accelerate(false)
            .dfa_size_limit(Some(SIZE_LIMIT.min(2 * effort)))
            .determinize_size_limit(Some(effort));
        match dense::Builder::new().configure(config).build_from_nfa(states) {
            Ok(table) => {
                let size = table.memory_usage();
                // Building a table takes longer than its size tells, but for the smallest ones.
                *charge += size + if effort == EFFORTS[0] { 0 } else { effort / 4 * 3 };
                let steps = u64::try_from(size / CACHED).unwrap_or(u64::MAX).max(1);
                return Ok(Machine::Table { table: Box::new(table), steps });
            }
            Err(error) if error.is_size_limit_exceeded() => *charge += effort,
            Err(error) => return Err(error.to_string()),
        }
    }
    Err(TOO_MANY_STATES.to_owned())
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
fn table_matches(table: &dense::DFA<Vec<u32>>, value: &[u8], steps: &Steps, each: u64) -> bool {
    // Only a start without an anchor can fail.
    let Ok(mut state) = table.start_state(&start::Config::new().anchored(Anchored::Yes)) else {
        return false;
    };
    let affordable = &value[..steps.begin(value.len(), each)];
    for (read, &byte) in affordable.iter().enumerate() {
        state = table.next_state(state, byte);
        if table.is_dead_state(state) {
            steps.spend(read, each);
            steps.suffice();
            return false;
        }
    }
    steps.spend(affordable.len(), each);
    !steps.are_exceeded() && table.is_match_state(table.next_eoi_state(state))
}

fn any_bytes() -> Hir {
    let any = Hir::dot(Dot::AnyByte);
    Hir::repetition(Repetition { min: 0, max: None, greedy: true, sub: Box::new(any) })
}

fn literal_prefix(hir: &Hir) -> Box<[u8]> {
    let literals = Extractor::new().extract(hir);
    literals.longest_common_prefix().unwrap_or_default().into()
}

fn too_large(source: &str, why: &str) -> PatternError {
    PatternError::new(format!("the regular expression \"{source}\" is too large: {why}"))
}
