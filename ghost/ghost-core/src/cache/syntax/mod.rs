//! The grammar that header fields share: lists, quoted strings, dates, structured fields.
//!
//! In:  header lines as an origin or a client sent them; nothing has to be well-formed.
//! Out: borrowed parts of these lines. Nothing here allocates.

pub mod date;
pub mod list;
pub mod structured;

/// Whether it is a token (RFC 9110, section 5.6.2), such as the name of a field.
#[must_use]
pub fn is_token(text: &[u8]) -> bool {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(is_token)
}

/// The number that a text of digits stands for; None if there is anything but digits. A
/// number that is too large becomes the largest.
///
/// ```
/// use ghost_core::cache::syntax::digits;
///
/// assert_eq!(digits(b"0060"), Some(60));
/// assert_eq!(digits(b"99999999999999999999"), Some(u64::MAX));
/// assert_eq!(digits(b"+60"), None);
/// assert_eq!(digits(b""), None);
/// ```
#[must_use]
pub fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit))
    })
}
