//! Globs over the names of query parameters and cookies: `*` is any text, `?` is any byte.
//!
//! All globs of a list become one [`Pattern`], so that a name costs one step for each byte,
//! however many globs there are, and the [`budget`](crate::budget) of the route covers them.

use std::fmt::Write as _;

use super::PolicyError;
use crate::budget::Budget;
use crate::pattern::Pattern;
use crate::steps::Steps;

/// The most globs or names in one list of a policy.
pub const MAX_NAMES: usize = 64;
/// Longer names match no glob.
pub(in super::super) const MAX_NAME: usize = 256;

/// The globs of a list.
///
/// ```
/// use ghost_core::budget::Budget;
/// use ghost_core::cache::policy::Globs;
///
/// let globs = Globs::compile(&["utm_*".into(), "gclid".into()], "exclude", &mut Budget::default())?;
/// assert!(globs.matches(b"utm_source") && globs.matches(b"gclid"));
/// assert!(!globs.matches(b"xutm_source") && !globs.matches(b"gclid2"));
/// # Ok::<(), ghost_core::cache::PolicyError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Globs {
    pattern: Option<Pattern>,
    /// The globs themselves, if each is a name or the beginning of one. Comparing them takes
    /// less than running the pattern, and every request pays for it.
    simple: Option<Box<[Simple]>>,
}

/// A name, or its beginning.
#[derive(Clone, Debug)]
struct Simple {
    text: Box<[u8]>,
    is_prefix: bool,
}

impl Simple {
    /// None if the glob is more than that.
    fn new(glob: &str) -> Option<Self> {
        let (text, is_prefix) = glob.strip_suffix('*').map_or((glob, false), |text| (text, true));
        let plain = !text.contains(['*', '?']);
        plain.then(|| Self { text: text.as_bytes().into(), is_prefix })
    }

    fn matches(&self, name: &[u8]) -> bool {
        name.starts_with(&self.text) && (self.is_prefix || name.len() == self.text.len())
    }
}

impl Globs {
    /// Compile the globs of the list `field`.
    ///
    /// # Errors
    /// A glob is empty, there are more than [`MAX_NAMES`], or they are too complex.
    pub fn compile(
        sources: &[String],
        field: &str,
        budget: &mut Budget,
    ) -> Result<Self, PolicyError> {
        bounded(sources, field)?;
        if let Some(index) = sources.iter().position(String::is_empty) {
            return Err(PolicyError::new(format!("{field}[{index}]"), "a glob must not be empty"));
        }
        if sources.is_empty() {
            return Ok(Self::default());
        }
        let alternatives: Vec<_> = sources.iter().map(|source| regex(source)).collect();
        let pattern = budget.compile(&format!("(?s){}", alternatives.join("|")));
        let error = |error: crate::PatternError| PolicyError::new(field, error.to_string());
        let simple = sources.iter().map(|source| Simple::new(source)).collect();
        pattern.map(|pattern| Self { pattern: Some(pattern), simple }).map_err(error)
    }

    /// The regular expression that stands for them; empty if there are none.
    pub(in super::super) fn source(&self) -> &str {
        self.pattern.as_ref().map_or("", Pattern::source)
    }

    /// The globs that [`source`](Self::source) stands for.
    pub(in super::super) fn of_source(source: &str) -> Self {
        let pattern = (!source.is_empty()).then(|| Pattern::new(source).ok()).flatten();
        Self { pattern, simple: None }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pattern.is_none()
    }

    /// Whether one of them matches the whole name.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        self.matches_within(name, &Steps::unlimited())
    }

    /// False if that takes too many `steps`.
    pub(in super::super) fn matches_within(&self, name: &[u8], steps: &Steps) -> bool {
        if name.len() > MAX_NAME {
            return false;
        }
        if let Some(simple) = &self.simple {
            return steps.compare(simple.len()) && simple.iter().any(|glob| glob.matches(name));
        }
        self.pattern.as_ref().is_some_and(|pattern| pattern.matches_within(name, steps))
    }
}

/// A regular expression for a glob. Bytes other than letters and digits are escaped.
fn regex(glob: &str) -> String {
    let mut regex = String::with_capacity(glob.len() * 2);
    for byte in glob.bytes() {
        match byte {
            b'*' => regex.push_str(".*"),
            b'?' => regex.push('.'),
            byte if byte.is_ascii_alphanumeric() => regex.push(char::from(byte)),
            byte => {
                // Writing to a string never fails.
                let _ = write!(regex, r"\x{byte:02x}");
            }
        }
    }
    regex
}

/// A list of a policy has at most [`MAX_NAMES`] entries: every request pays for each.
pub(in super::super) fn bounded<T>(list: &[T], field: &str) -> Result<(), PolicyError> {
    let length = list.len();
    let error = || PolicyError::new(field, format!("{length} entries are more than {MAX_NAMES}"));
    (length <= MAX_NAMES).then_some(()).ok_or_else(error)
}
