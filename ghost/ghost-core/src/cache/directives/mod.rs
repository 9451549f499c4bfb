//! Cache directives of requests and responses.
//!
//! In:  the fields Cache-Control, CDN-Cache-Control, Surrogate-Control and Pragma.
//! Out: [`RequestDirectives`] or [`ResponseDirectives`]: plain values that borrow nothing. Parsing
//!      does not allocate.
//!
//! | What a field has | How it counts |
//! |---|---|
//! | a directive in any case, an unknown one | RFC 9111, sections 5.2 and 5.2.3: case is irrelevant, unknown ones are ignored |
//! | `max-age="60"` | as 60 (section 5.2: accept both forms) |
//! | `max-age=x`, `max-age=1.5`, `max-age = 1`, `max-age` | as stale (section 4.2.1) |
//! | `max-age=1, max-age=60` | the first one (section 4.2.1) |
//! | `private=", x"`, `private=` | as `private`: what can't be read restricts most |
//! | a quote that is never closed | directives after it count, and its response is stale |
//! | a number beyond 2³¹ | as 2³¹ (section 1.2.2) |

mod request;
mod response;
mod targeted;

use std::time::Duration;

pub use request::RequestDirectives;
pub use response::{withheld_fields, ResponseDirectives, Restriction};
pub use targeted::{effective, Source};

use super::syntax::digits;
use super::syntax::list::{self, Member};
use super::time::FOREVER;

/// The argument of a directive that has a number of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seconds {
    /// So many, at most 2³¹.
    Valid(Duration),
    /// Absent, or not a number.
    Invalid,
}

impl Seconds {
    fn parse(argument: Option<Argument<'_>>) -> Self {
        let seconds = argument.filter(|argument| !argument.malformed);
        match seconds.and_then(|argument| digits(argument.text)) {
            Some(seconds) => Self::new(seconds),
            None => Self::Invalid,
        }
    }

    fn new(seconds: u64) -> Self {
        Self::Valid(Duration::from_secs(seconds).min(FOREVER))
    }

    /// The duration; zero if the argument is invalid, which is the most restrictive one.
    #[must_use]
    pub fn or_zero(self) -> Duration {
        match self {
            Self::Valid(duration) => duration,
            Self::Invalid => Duration::ZERO,
        }
    }
}

/// A directive of a line.
#[derive(Clone, Copy, Debug)]
struct Directive<'a> {
    name: &'a [u8],
    argument: Option<Argument<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct Argument<'a> {
    /// Without quotes; escapes are left as they are.
    text: &'a [u8],
    malformed: bool,
}

impl<'a> Directive<'a> {
    fn parse(member: Member<'a>) -> Self {
        let Some(at) = member.text.iter().position(|&byte| byte == b'=') else {
            return Self { name: member.text, argument: None };
        };
        let (name, value) = (&member.text[..at], &member.text[at + 1..]);
        let spaced =
            name.len() != name.trim_ascii().len() || value.len() != value.trim_ascii().len();
        let (text, quoted) = match value.trim_ascii() {
            [b'"', inner @ .., b'"'] => (inner, true),
            text => (text, false),
        };
        let malformed = spaced || member.malformed || (!quoted && text.contains(&b'"'));
        Self { name: name.trim_ascii(), argument: Some(Argument { text, malformed }) }
    }

    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// The directives of a line, and whether a quote in it is never closed.
fn directives(line: &[u8]) -> impl Iterator<Item = (Directive<'_>, bool)> {
    list::members(line).map(|member| (Directive::parse(member), member.malformed))
}

/// Keep the first occurrence.
fn first(slot: &mut Option<Seconds>, argument: Option<Argument<'_>>) {
    slot.get_or_insert_with(|| Seconds::parse(argument));
}
