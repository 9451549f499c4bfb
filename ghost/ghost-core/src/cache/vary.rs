//! Vary: which stored response fits a request (RFC 9111, section 4.1).
//!
//! In:  the Vary of a response; the values that a field had in two requests.
//! Out: whether the response can be matched at all, and whether the values mean the same.
//!
//! Values of unknown fields are compared byte for byte, without surrounding whitespace. The
//! fields of content negotiation are lists with weights: case, whitespace, order and the form
//! of a weight are irrelevant.
//!
//! ```
//! use ghost_core::cache::vary::{check, same_meaning, Unmatchable};
//!
//! assert_eq!(check(&[("Vary", &b"Accept"[..]), ("Vary", b"Cookie, *")]), Err(Unmatchable::Any));
//!
//! let one = Some(&b"gzip;q=1.0, BR"[..]);
//! assert!(same_meaning("Accept-Encoding", one, Some(b"br,gzip")));
//! assert!(!same_meaning("Accept-Encoding", one, Some(b"br,gzip;q=0.5")));
//! assert!(!same_meaning("Accept-Encoding", one, None));
//! assert!(!same_meaning("X-Colours", Some(b"red, blue"), Some(b"blue, red")));
//! ```

use super::headers::Headers;
use super::syntax::list;

/// A response may vary by so many fields.
pub const MAX_FIELDS: usize = 32;
/// Longer lists are compared byte for byte: comparing them by meaning takes quadratic time, and
/// varnishd holds a lock meanwhile.
const MAX_MEMBERS: usize = 32;
/// Longer values are compared byte for byte, too. Browsers send less than half of this.
const MAX_LENGTH: usize = 512;
const WEIGHTED: [&str; 4] = ["accept", "accept-charset", "accept-encoding", "accept-language"];

/// Why no other request can match a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmatchable {
    /// Vary has a member "*".
    Any,
    /// Vary has more than [`MAX_FIELDS`] members.
    TooMany,
}

/// The names in the Vary of a response, in all lines.
pub fn fields(response: &impl Headers) -> impl Iterator<Item = &[u8]> {
    response.values("vary").flat_map(list::members).map(|member| member.text)
}

/// Whether another request can match a response.
///
/// # Errors
/// Its Vary has a "*" or too many names.
pub fn check(response: &impl Headers) -> Result<(), Unmatchable> {
    for (index, name) in fields(response).enumerate() {
        if name == b"*" {
            return Err(Unmatchable::Any);
        }
        if index >= MAX_FIELDS {
            return Err(Unmatchable::TooMany);
        }
    }
    Ok(())
}

/// Whether a request repeats a field that a response varies by. varnishd records the first line
/// of a variant only, while an origin may go by another one.
pub fn is_repeated(request: &impl Headers, response: &impl Headers) -> bool {
    fields(response).any(|name| {
        let name = std::str::from_utf8(name).unwrap_or_default();
        request.values(name).nth(1).is_some()
    })
}

/// Whether two requests mean the same by a field. Lines of a repeated field are joined by a
/// comma; None is an absent field.
#[must_use]
pub fn same_meaning(name: &str, one: Option<&[u8]>, other: Option<&[u8]>) -> bool {
    match (one.map(<[u8]>::trim_ascii), other.map(<[u8]>::trim_ascii)) {
        (None, None) => true,
        (Some(one), Some(other)) if one == other => true,
        (Some(one), Some(other)) => {
            WEIGHTED.iter().any(|weighted| weighted.eq_ignore_ascii_case(name))
                && same_members(one, other)
        }
        _ => false,
    }
}

/// Whether a stored response is in the one language that a client prefers most.
///
/// ```
/// use ghost_core::cache::vary::prefers_language;
///
/// assert!(prefers_language(b"de;q=0.5, fr", b"fr"));
/// assert!(!prefers_language(b"de;q=0.5, fr", b"de"));
/// assert!(!prefers_language(b"de, fr", b"fr"));
/// assert!(!prefers_language(b"*", b"fr"));
/// ```
#[must_use]
pub fn prefers_language(accept_language: &[u8], content_language: &[u8]) -> bool {
    let wanted = |one: &Weighted<'_>| one.name.eq_ignore_ascii_case(content_language.trim_ascii());
    let mut all = weighted(accept_language);
    let Some(found) = all.by_ref().find(wanted).filter(|found| found.weight > 0) else {
        return false;
    };
    let others = weighted(accept_language).filter(|one| !wanted(one));
    others.into_iter().all(|one| one.weight < found.weight)
}

fn same_members(one: &[u8], other: &[u8]) -> bool {
    let mut buffers = [[Weighted::default(); MAX_MEMBERS]; 2];
    let [ones, others] = &mut buffers;
    let (Some(ones), Some(others)) = (few(one, ones), few(other, others)) else { return false };
    let count = |all: &[Weighted<'_>], member: &Weighted<'_>| {
        all.iter().filter(|found| found.means(member)).count()
    };
    ones.len() == others.len()
        && ones.iter().all(|member| count(ones, member) == count(others, member))
}

/// The members of a short list; None for a long one.
fn few<'b, 'a>(
    list: &'a [u8],
    buffer: &'b mut [Weighted<'a>; MAX_MEMBERS],
) -> Option<&'b [Weighted<'a>]> {
    if list.len() > MAX_LENGTH {
        return None;
    }
    let mut count = 0;
    for member in weighted(list) {
        *buffer.get_mut(count)? = member;
        count += 1;
    }
    Some(&buffer[..count])
}

/// A member of a list with weights, such as `text/html;level=1;q=0.5`.
#[derive(Clone, Copy, Default)]
struct Weighted<'a> {
    name: &'a [u8],
    /// In thousandths.
    weight: u16,
    /// Everything after the name, if a part of it is not a plain weight.
    rest: &'a [u8],
}

impl Weighted<'_> {
    fn means(&self, other: &Self) -> bool {
        self.name.eq_ignore_ascii_case(other.name)
            && self.weight == other.weight
            && self.rest == other.rest
    }
}

fn weighted(list: &[u8]) -> impl Iterator<Item = Weighted<'_>> {
    list::members(list).map(|member| {
        let at = member.text.iter().position(|&byte| byte == b';').unwrap_or(member.text.len());
        let (name, rest) = member.text.split_at(at);
        let rest = rest.strip_prefix(b";").unwrap_or(rest).trim_ascii();
        let weight = if rest.is_empty() { Some(1000) } else { weight(rest) };
        let rest = if weight.is_some() { &b""[..] } else { rest };
        Weighted { name: name.trim_ascii(), weight: weight.unwrap_or(0), rest }
    })
}

/// `q=0.5` in thousandths (RFC 9110, section 12.4.2).
fn weight(text: &[u8]) -> Option<u16> {
    let [b'q' | b'Q', b'=', whole @ (b'0' | b'1'), fraction @ ..] = text else { return None };
    let mut thousandths = u16::from(whole - b'0') * 1000;
    let digits = match fraction {
        [] => fraction,
        [b'.', digits @ ..] if digits.len() <= 3 => digits,
        _ => return None,
    };
    for (digit, unit) in digits.iter().zip([100, 10, 1]) {
        thousandths += u16::from(digit.is_ascii_digit().then(|| digit - b'0')?) * unit;
    }
    (thousandths <= 1000).then_some(thousandths)
}
