//! CDN-Loop (RFC 8586): how often a request has passed a gateway before.
//!
//! In:  the values of the header, and the identifier that the gateway adds to it.
//! Out: how often the identifier is among them, and whether with a parameter that proves it.
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
    own(values, id).count()
}

/// Whether the identifier occurs with this parameter.
///
/// ```
/// use ghost_core::cdn_loop::is_proven;
///
/// let values = [&b"cdn.example; pass=1"[..], b"web.gateway ;a=b; pass=2"];
/// assert!(is_proven(values.into_iter(), b"web.gateway", b"pass=2"));
/// assert!(!is_proven(values.into_iter(), b"web.gateway", b"pass=1"));
/// ```
pub fn is_proven<'v>(values: impl Iterator<Item = &'v [u8]>, id: &[u8], proof: &[u8]) -> bool {
    let mut parameters = own(values, id).flat_map(|rest| rest.split(|&byte| byte == b';'));
    parameters.any(|one| one.trim_ascii() == proof)
}

/// The parameters of each member that has the identifier.
fn own<'v, 'i, I: Iterator<Item = &'v [u8]>>(
    values: I,
    id: &'i [u8],
) -> impl Iterator<Item = &'v [u8]> + use<'v, 'i, I> {
    let members = values.flat_map(|value| value.split(|&byte| byte == b','));
    members.filter_map(move |member| {
        let end = member.iter().position(|&byte| byte == b';').unwrap_or(member.len());
        let (name, parameters) = member.split_at(end);
        name.trim_ascii().eq_ignore_ascii_case(id).then_some(parameters)
    })
}
