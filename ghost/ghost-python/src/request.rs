//! A request in the form that users write it.

use ghost_core::{is_tunnel_request, OwnedRequest};

/// Build a request. `url` is a target ("/tea?hot=1") or a whole URL, whose host counts unless
/// `headers` has one. The error ends in the status that ghost would respond with.
pub(crate) fn request(
    socket: &str,
    method: &str,
    url: &str,
    headers: Vec<(String, String)>,
) -> Result<OwnedRequest, String> {
    if is_tunnel_request(method.as_bytes()) {
        return Err(format!("the method {method} is not served: 405"));
    }
    let (authority, target) = split_url(url);
    let host_header = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
    let host = host_header.map_or(authority, |(_, value)| value);
    let request =
        OwnedRequest::new(method, host, &target).map_err(|error| format!("{error}: 400"))?;
    Ok(headers.into_iter().fold(request.with_socket(socket), |request, (name, value)| {
        request.with_header(&name, value)
    }))
}

/// Authority and target; an absent path is "/".
fn split_url(url: &str) -> (&str, String) {
    let Some((_, rest)) = url.split_once("://").filter(|_| !url.starts_with('/')) else {
        return ("", url.to_owned());
    };
    let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let slash = if target.starts_with('/') { "" } else { "/" };
    (authority, format!("{slash}{target}"))
}
