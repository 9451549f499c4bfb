//! Cookies of a request (RFC 6265, section 4.2).

use super::super::headers::Headers;

/// Name and value of each cookie, in order. What has no "=" is a name without a value.
///
/// ```
/// use ghost_core::cache::key::cookies::cookies;
///
/// let lines = [("Cookie", &b"a=1; b = x=y ;;c"[..]), ("cookie", b"a=2")];
/// let all: Vec<_> = cookies(&lines).collect();
/// let expected: [(&[u8], &[u8]); 4] = [(b"a", b"1"), (b"b", b"x=y"), (b"c", b""), (b"a", b"2")];
/// assert_eq!(all, expected);
/// ```
pub fn cookies(request: &impl Headers) -> impl Iterator<Item = (&[u8], &[u8])> {
    let pairs = request.values("cookie").flat_map(|line| line.split(|&byte| byte == b';'));
    pairs.map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty()).map(|pair| {
        let at = pair.iter().position(|&byte| byte == b'=').unwrap_or(pair.len());
        let value = pair.get(at + 1..).unwrap_or_default();
        (pair[..at].trim_ascii(), value.trim_ascii())
    })
}
