//! What may be done to the body of a response before it is stored.
//!
//! ```
//! use ghost_core::cache::content::{is_text, may_be_transformed};
//!
//! assert!(is_text(b"text/html; charset=utf-8") && is_text(b"application/problem+json"));
//! assert!(!is_text(b"image/png") && !is_text(b"application/octet-stream"));
//! assert!(may_be_transformed(&[("Cache-Control", &b"max-age=60"[..])]));
//! assert!(!may_be_transformed(&[("Cache-Control", &b"No-Transform"[..])]));
//! assert!(!may_be_transformed(&[("Content-Encoding", &b"br"[..])]));
//! ```

use super::headers::Headers;
use super::syntax::list;

const TEXTS: [&str; 7] = [
    "application/javascript",
    "application/json",
    "application/manifest+json",
    "application/wasm",
    "application/xml",
    "image/svg+xml",
    "image/x-icon",
];

/// Whether a content type is that of something that compresses well.
#[must_use]
pub fn is_text(content_type: &[u8]) -> bool {
    let name = content_type.split(|&byte| byte == b';').next().unwrap_or(b"").trim_ascii();
    let ends = |end: &[u8]| {
        name.len() > end.len() && name[name.len() - end.len()..].eq_ignore_ascii_case(end)
    };
    let begins =
        |start: &[u8]| name.len() > start.len() && name[..start.len()].eq_ignore_ascii_case(start);
    begins(b"text/")
        || ends(b"+json")
        || ends(b"+xml")
        || TEXTS.iter().any(|text| text.as_bytes().eq_ignore_ascii_case(name))
}

/// Whether the body may be encoded: it isn't yet, and `no-transform` doesn't forbid it (RFC
/// 9111, section 5.2.2.6).
pub fn may_be_transformed(response: &impl Headers) -> bool {
    let mut members = response.values("cache-control").flat_map(list::members);
    !response.has("content-encoding")
        && !members.any(|member| member.text.eq_ignore_ascii_case(b"no-transform"))
}
