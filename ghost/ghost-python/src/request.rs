//! A request in the form that users write it.

use ghost_core::target::PathRules;
use ghost_core::{is_tunnel_request, OwnedRequest};

/// Build a request, and return what its Host header is with it. `url` is a target ("/tea?hot=1") or a whole URL, whose host counts unless
/// `headers` has one. `paths` are applied as ghost does. The error ends in the status that ghost would respond with.
pub(crate) fn request(
    socket: &str,
    method: &str,
    url: &str,
    headers: Vec<(String, String)>,
    paths: &PathRules,
) -> Result<(OwnedRequest, String), String> {
    if is_tunnel_request(method.as_bytes()) {
        return Err(format!("the method {method} is not served: 405"));
    }
    let (authority, target) = split_url(url);
    let host_header = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
    let host = host_header.map_or(authority, |(_, value)| value).to_owned();
    let Ok(merged) = paths.apply(target.as_bytes()) else {
        return Err(format!("paths.reject of the GatewayClassParameters covers {target:?}: 400"));
    };
    let request = OwnedRequest::new(method, &host, &String::from_utf8_lossy(&merged))
        .map_err(|error| format!("{error}: 400"))?;
    let request =
        headers.into_iter().fold(request.with_socket(socket), |request, (name, value)| {
            request.with_header(&name, value)
        });
    Ok((request, host))
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
