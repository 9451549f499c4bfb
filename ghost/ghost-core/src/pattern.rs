//! Regular expressions of matches.
//!
//! A [`Pattern`] takes linear time, works on bytes and holds for the whole value only.
//! Classes such as `\d` and `\w` are ASCII and `.` is any byte but a newline, as `(?-u)`
//! says: that keeps a compiled pattern small. `(?u)` in a pattern turns Unicode on.

use std::fmt;

use regex_automata::meta;
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Hir, Look};

/// Bounds what one pattern may take in memory, since tenants write patterns.
const SIZE_LIMIT: usize = 1 << 20;
/// Lazy DFAs cache states per thread; the default of 2 MiB would be per pattern.
const CACHE_LIMIT: usize = 64 << 10;

/// A compiled regular expression that must match the whole value.
#[derive(Clone)]
pub struct Pattern {
    source: Box<str>,
    literal_prefix: Box<[u8]>,
    regex: meta::Regex,
}

/// Why a regular expression is refused, in one line.
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
    /// It is not a regular expression, or a too large one.
    pub fn new(source: &str) -> Result<Self, PatternError> {
        let hir = parse(source)?;
        let literal_prefix = literal_prefix(&hir);
        // Joined as syntax trees: in text, a pattern such as "a)|(b" could break out of
        // its parentheses.
        let whole = Hir::concat(vec![Hir::look(Look::Start), hir, Hir::look(Look::End)]);
        let regex = meta::Builder::new()
            .configure(
                meta::Config::new()
                    .utf8_empty(false)
                    // Nobody asks where a group matched. A full DFA would make building
                    // seven times as long and matching no faster.
                    .which_captures(WhichCaptures::None)
                    .dfa(false)
                    .nfa_size_limit(Some(SIZE_LIMIT))
                    .hybrid_cache_capacity(CACHE_LIMIT),
            )
            .build_from_hir(&whole)
            .map_err(|error| too_large(source, &error))?;
        Ok(Self { source: source.into(), literal_prefix, regex })
    }

    /// Whether it matches the whole of `value`.
    #[must_use]
    pub fn matches(&self, value: &[u8]) -> bool {
        value.starts_with(&self.literal_prefix)
            && self.regex.is_match(Input::new(value).anchored(Anchored::Yes))
    }

    /// What it was made from.
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

/// Whether [`Pattern::new`] takes `source`.
///
/// # Errors
/// The reason why not.
pub fn validate_regex(source: &str) -> Result<(), PatternError> {
    Pattern::new(source).map(drop)
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

fn literal_prefix(hir: &Hir) -> Box<[u8]> {
    let literals = Extractor::new().extract(hir);
    literals.longest_common_prefix().unwrap_or_default().into()
}

fn too_large(source: &str, error: &meta::BuildError) -> PatternError {
    let why = match error.size_limit() {
        Some(limit) => format!("it takes more than {limit} bytes when compiled"),
        None => error.to_string(),
    };
    PatternError(format!("the regular expression \"{source}\" is too large: {why}"))
}
