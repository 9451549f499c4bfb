//! CDN-Loop (RFC 8586): how often a request has passed a gateway before.
//!
//! In:  the values of the header, and the identifier that the gateway adds to it.
//! Out: how often the identifier is among them.
//!
//! ```
//! use ghost_core::cdn_loop::passes;
//!
//! let values = [&b"cdn.example; id=1"[..], b"Web.gateway, web.gateway"];
//! assert_eq!(passes(values.into_iter(), b"web.gateway"), 2);
//! assert_eq!(passes(values.into_iter(), b"gateway"), 0);
//! ```

/// How often the identifier occurs. Quoted parameters are not parsed: a quote that a client
/// leaves open must not hide what follows. A comma within quotes can only add to the count of
/// the client that sent it.
pub fn passes<'v>(values: impl Iterator<Item = &'v [u8]>, id: &[u8]) -> usize {
    let members = values.flat_map(|value| value.split(|&byte| byte == b','));
    let names = members.filter_map(|member| member.split(|&byte| byte == b';').next());
    names.filter(|name| name.trim_ascii().eq_ignore_ascii_case(id)).count()
}
