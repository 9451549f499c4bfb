//! A request that was never sent.

use std::borrow::Cow;

use ghost_core::{host, is_tunnel_request, join_values, target, Host, Request};

/// A request in the form that the router asks for.
pub(crate) struct Question {
    socket: String,
    host: Host,
    method: String,
    target: Vec<u8>,
    headers: Vec<(String, String)>,
}

impl Question {
    /// `url` is a target ("/tea?hot=1") or a whole URL; its host counts unless `headers`
    /// has one.
    pub(crate) fn new(
        socket: &str,
        method: &str,
        url: &str,
        headers: Vec<(String, String)>,
    ) -> Result<Self, Cow<'static, str>> {
        if is_tunnel_request(method.as_bytes()) {
            return Err(format!("the method {method} is not served: 405").into());
        }
        let (authority, target) = split_url(url);
        let given = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let host = given.map_or(authority, |(_, value)| value);
        Ok(Self {
            socket: socket.to_owned(),
            host: Host::parse(host.as_bytes())
                .map_err(|host::Malformed| format!("the host {host:?} is malformed: 400"))?,
            method: method.to_owned(),
            target: target::normalise(target.as_bytes(), method.as_bytes())
                .map_err(|target::Malformed| format!("the target {target:?} is malformed: 400"))?
                .into_owned(),
            headers,
        })
    }

    /// Path and query after dot segments are resolved.
    pub(crate) fn target(&self) -> &[u8] {
        &self.target
    }
}

/// Authority and target; an absent path is "/".
fn split_url(url: &str) -> (&str, Cow<'_, str>) {
    let Some((_, rest)) = url.split_once("://").filter(|_| !url.starts_with('/')) else {
        return ("", url.into());
    };
    let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if target.starts_with('/') {
        (authority, target.into())
    } else {
        (authority, format!("/{target}").into())
    }
}

impl Request for Question {
    fn socket(&self) -> &str {
        &self.socket
    }

    fn host(&self) -> &[u8] {
        &self.host
    }

    fn method(&self) -> &[u8] {
        self.method.as_bytes()
    }

    fn path(&self) -> &[u8] {
        target::split(&self.target).0
    }

    fn query(&self) -> Option<&[u8]> {
        target::split(&self.target).1
    }

    fn header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let named = self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        join_values(named.map(|(_, value)| value.as_bytes()))
    }
}
