//! Conditional requests: answers from the cache, validation, and what a 304 changes.
//!
//! In:  fields of a request and of a stored response.
//! Out: whether 304 answers the request, whether a range of the response does, and which
//!      fields of a 304 or a HEAD response replace stored ones.
//!
//! ```
//! use ghost_core::cache::conditional::{evaluate, Answer};
//! use ghost_core::cache::Timestamp;
//!
//! let stored = [("ETag", &br#"W/"a,b""#[..])];
//! let now = Timestamp::from_seconds(784_111_777);
//! let asked = |list| evaluate(&[("If-None-Match", list)], 200, &stored, now);
//! assert_eq!(asked(br#""x", "a,b""#), Answer::NotModified);
//! assert_eq!(asked(br#""a""#), Answer::Whole);
//! assert_eq!(asked(b"*"), Answer::NotModified);
//! ```

use super::headers::Headers;
use super::syntax::{date, digits, list};
use super::time::Timestamp;

/// How the cache answers a request from a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// With 304.
    NotModified,
    /// With the whole response.
    Whole,
}

/// Evaluate If-None-Match or, without it, If-Modified-Since of a GET or HEAD request
/// (RFC 9111, section 4.3.2). `received` is when the stored response arrived.
pub fn evaluate(
    request: &impl Headers,
    status: u16,
    stored: &impl Headers,
    received: Timestamp,
) -> Answer {
    // Preconditions apply to responses that are successful by themselves.
    let applies = matches!(status, 200..=299) && status != 206;
    let matches = if request.has("if-none-match") {
        let etag = stored.only("etag");
        request.values("if-none-match").any(|list| names(list, etag))
    } else {
        not_modified_since(request, stored, received)
    };
    if applies && matches {
        Answer::NotModified
    } else {
        Answer::Whole
    }
}

/// Whether a list of entity tags names the stored one, by weak comparison (RFC 9110, section
/// 13.1.2). "*" names whatever is stored.
fn names(list: &[u8], etag: Option<&[u8]>) -> bool {
    list::members(list).any(|member| {
        member.text == b"*" || etag.is_some_and(|etag| weakly_equal(member.text, etag.trim_ascii()))
    })
}

fn weakly_equal(one: &[u8], other: &[u8]) -> bool {
    let opaque = |tag| <[u8]>::strip_prefix(tag, b"W/").unwrap_or(tag);
    !opaque(one).is_empty() && opaque(one) == opaque(other)
}

/// A response without Last-Modified counts as modified when it was generated or, without a
/// Date, when it arrived.
fn not_modified_since(request: &impl Headers, stored: &impl Headers, received: Timestamp) -> bool {
    let read = |text| date::parse(text, received.seconds());
    let Some(since) = request.only("if-modified-since").and_then(read) else { return false };
    let modified = stored.only("last-modified").or_else(|| stored.only("date"));
    modified.map_or(Some(received.seconds()), read).is_some_and(|modified| modified <= since)
}

/// Whether a Range of the request may be answered with a part: there is no If-Range, or it
/// names exactly the stored response, by strong comparison (RFC 9110, section 13.1.5).
///
/// ```
/// use ghost_core::cache::conditional::allows_range;
///
/// let stored = [("ETag", &br#""a""#[..])];
/// assert!(allows_range(&[("If-Range", &br#""a""#[..])], &stored));
/// assert!(!allows_range(&[("If-Range", &br#"W/"a""#[..])], &stored));
/// ```
pub fn allows_range(request: &impl Headers, stored: &impl Headers) -> bool {
    if !request.has("if-range") {
        return true;
    }
    let Some(named) = request.only("if-range").map(<[u8]>::trim_ascii) else { return false };
    match named {
        [b'W', b'/', ..] => false,
        [b'"', ..] => stored.only("etag").map(<[u8]>::trim_ascii) == Some(named),
        // A date is a strong validator if the response was generated a second or more after
        // it (RFC 9110, section 8.8.2.2). The three formats can't be mixed, so bytes do.
        _ => {
            let seconds = |name| stored.only(name).and_then(|text| date::parse(text, 0));
            let (modified, date) = (seconds("last-modified"), seconds("date"));
            stored.only("last-modified").map(<[u8]>::trim_ascii) == Some(named)
                && modified.zip(date).is_some_and(|(modified, date)| modified < date)
        }
    }
}

/// Whether a range of a stored response answers the request: it is a GET with one range of
/// bytes, and its If-Range allows a part. Any other Range counts as absent (RFC 9110, section
/// 14.2). A range beyond the end of the response is valid, and can't be satisfied.
///
/// ```
/// use ghost_core::cache::conditional::asks_for_part;
///
/// let stored = [("ETag", &br#""a""#[..])];
/// assert!(asks_for_part(b"GET", &[("Range", &b"bytes=0-99"[..])], &stored));
/// assert!(!asks_for_part(b"GET", &[("Range", &b"bytes=0-1,5-9"[..])], &stored));
/// assert!(!asks_for_part(b"HEAD", &[("Range", &b"bytes=0-99"[..])], &stored));
/// ```
pub fn asks_for_part(method: &[u8], request: &impl Headers, stored: &impl Headers) -> bool {
    method == b"GET"
        && request.only("range").is_some_and(is_one_range)
        && allows_range(request, stored)
}

/// Whether a Range is `bytes=first-last`, `bytes=first-` or `bytes=-length` (RFC 9110, section
/// 14.1.2).
fn is_one_range(range: &[u8]) -> bool {
    let Some((unit, set)) = range.trim_ascii().split_at_checked(6) else { return false };
    let set = set.trim_ascii();
    let Some(dash) = set.iter().position(|&byte| byte == b'-') else { return false };
    let (first, last) = (&set[..dash], &set[dash + 1..]);
    let valid = match (first, last) {
        (b"", length) => digits(length).is_some(),
        (first, b"") => digits(first).is_some(),
        (first, last) => digits(first).zip(digits(last)).is_some_and(|(first, last)| first <= last),
    };
    unit.eq_ignore_ascii_case(b"bytes=") && valid
}

/// Whether a 304 refers to the stored response (RFC 9111, section 4.3.4). A strong entity tag
/// has to be that of the stored response; a weak one, or Last-Modified, has to correspond to it.
///
/// A 304 without validators is taken, although the RFC has no rule for it if the stored response
/// has some: many origins leave them out, and the cache asked about one response only.
///
/// ```
/// use ghost_core::cache::conditional::freshens;
///
/// let stored = [("ETag", &br#""a""#[..])];
/// assert!(freshens(&[("ETag", &br#""a""#[..])], &stored));
/// assert!(freshens(&[("ETag", &br#"W/"a""#[..])], &stored));
/// assert!(!freshens(&[("ETag", &br#""b""#[..])], &stored));
/// assert!(freshens(&[("Age", &b"1"[..])], &stored));
/// // A strong tag doesn't name a response whose own tag is weak.
/// assert!(!freshens(&stored, &[("ETag", &br#"W/"a""#[..])]));
/// ```
pub fn freshens(not_modified: &impl Headers, stored: &impl Headers) -> bool {
    match (not_modified.only("etag"), stored.only("etag")) {
        (Some(new), Some(old)) => {
            let (new, old) = (new.trim_ascii(), old.trim_ascii());
            new == old || (new.starts_with(b"W/") && weakly_equal(new, old))
        }
        (Some(_), None) => false,
        (None, _) => match not_modified.only("last-modified") {
            Some(new) => stored.only("last-modified").is_some_and(|old| old == new),
            None => true,
        },
    }
}

/// Whether a field of a 304 replaces the stored one (RFC 9111, section 3.2). Fields that
/// belong to a connection don't, nor do those by which the stored body is read: its length, and
/// its coding, which the cache may have changed.
///
/// ```
/// use ghost_core::cache::conditional::updates;
///
/// assert!(updates("Cache-Control") && updates("Content-Type") && updates("X-Any"));
/// assert!(!updates("content-length") && !updates("Connection"));
/// ```
#[must_use]
pub fn updates(name: &str) -> bool {
    const KEPT: [&str; 12] = [
        "connection",
        "content-encoding",
        "content-length",
        "content-range",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authentication-info",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    !KEPT.iter().any(|kept| kept.eq_ignore_ascii_case(name))
}

/// Whether a field concerns a proxy and one of its clients alone, so that it is not stored (RFC
/// 9111, section 3.1).
///
/// ```
/// use ghost_core::cache::conditional::is_of_proxy;
///
/// assert!(is_of_proxy(b"Proxy-Authenticate") && !is_of_proxy(b"WWW-Authenticate"));
/// ```
#[must_use]
pub fn is_of_proxy(name: &[u8]) -> bool {
    let own = ["proxy-authenticate", "proxy-authentication-info", "proxy-authorization"];
    own.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(name))
}

/// Whether a response to HEAD shows that the stored response to GET is outdated: a validator
/// or the length differs (RFC 9111, section 4.3.5).
///
/// ```
/// use ghost_core::cache::conditional::outdates;
///
/// let stored = [("ETag", &br#""a""#[..]), ("Content-Length", b"10")];
/// assert!(!outdates(&[("Content-Length", &b"10"[..])], &stored));
/// assert!(outdates(&[("Content-Length", &b"11"[..])], &stored));
/// ```
pub fn outdates(head: &impl Headers, stored: &impl Headers) -> bool {
    ["etag", "last-modified", "content-length"].into_iter().any(|name| {
        let trimmed = |text: &'_ [u8]| text.trim_ascii().to_owned();
        head.has(name) && head.only(name).map(trimmed) != stored.only(name).map(trimmed)
    })
}
