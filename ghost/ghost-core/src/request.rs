//! What the router asks a request.

use std::borrow::Cow;

/// A request, in bytes as they came; nothing needs to be UTF-8.
pub trait Request {
    /// The name of the varnishd socket that it came in on.
    fn socket(&self) -> &str;

    /// The host as [`crate::Host`] gives it: lower case, without port and trailing dot.
    fn host(&self) -> &[u8];

    /// The method, as it came.
    fn method(&self) -> &[u8];

    /// The path, with dot segments resolved and without the query.
    fn path(&self) -> &[u8];

    /// What stands after the first "?", if there is one.
    fn query(&self) -> Option<&[u8]>;

    /// The value of a header, whose name is given in lower case; [`join_values`] makes one
    /// of several.
    fn header(&self, name: &str) -> Option<Cow<'_, [u8]>>;
}

/// Whether the method asks for a tunnel. None is ever made, and no backend must think so:
/// its connection goes on to serve others.
#[must_use]
pub fn asks_for_tunnel(method: &[u8]) -> bool {
    method == b"CONNECT"
}

/// The values of a header as one, joined with ",". Allocates only for two or more.
pub fn join_values<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Option<Cow<'a, [u8]>> {
    let mut joined = Cow::Borrowed(values.next()?);
    for value in values {
        let all = joined.to_mut();
        all.push(b',');
        all.extend_from_slice(value);
    }
    Some(joined)
}
