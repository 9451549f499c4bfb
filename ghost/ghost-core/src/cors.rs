//! CORS: which pages of other origins may read a response (GEP-1767).
//!
//! In:  the Origin of a request, and what a preflight asks for.
//! Out: headers for the response. The browser enforces them; the router rejects no request
//!      because of its origin.
//!
//! Where credentials are allowed, browsers do not read "*" as a wildcard. The headers then
//! name what the request asked for.
//!
//! A preflight is an OPTIONS request that announces another request. The router resolves it
//! in this order: a rule that matches the OPTIONS request and has CORS answers it; a rule
//! that names the method OPTIONS serves it as a plain request; the rule that will serve the
//! announced request answers it, if that rule has CORS; otherwise it is a plain request.
//!
//! ```
//! use ghost_core::cors::Preflight;
//! use ghost_core::{wire, Route};
//!
//! let route: wire::Route = wire::decode(
//!     br#"{"namespace": "shop", "name": "api", "attachments": [], "rules": [{"cors": {
//!         "origins": ["https://*.example.com"], "methods": ["GET", "PUT"], "maxAge": 60}}]}"#,
//! )?;
//! let route = Route::compile(&route)?;
//! let cors = route.rules()[0].cors.as_ref().unwrap();
//!
//! let origin = b"https://www.example.com";
//! let headers: Vec<_> = cors.response_headers(origin).collect();
//! assert_eq!(headers, [("Access-Control-Allow-Origin", &origin[..])]);
//! assert!(cors.varies_by_origin());
//!
//! let preflight = Preflight { origin, method: b"PUT", headers: None };
//! let headers: Vec<_> = cors.preflight_headers(&preflight).collect();
//! assert_eq!(headers[1], ("Access-Control-Allow-Methods", &b"GET, PUT"[..]));
//! assert_eq!(headers[2], ("Access-Control-Max-Age", &b"60"[..]));
//!
//! assert_eq!(cors.response_headers(b"https://example.org").count(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::borrow::Cow;

use crate::request::Request;
use crate::wire;

/// A header of a response: name and value.
pub type Header<'a> = (&'static str, &'a [u8]);

/// A compiled CORS filter. See the [module](self) for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    origins: Origins,
    methods: Names,
    headers: Names,
    expose: Names,
    credentials: bool,
    max_age: Box<str>,
}

/// What a preflight asks for.
#[derive(Clone, Copy, Debug)]
pub struct Preflight<'a> {
    /// The origin of the page.
    pub origin: &'a [u8],
    /// The method of the announced request.
    pub method: &'a [u8],
    /// The headers that the announced request will have.
    pub headers: Option<&'a [u8]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Origins {
    Any,
    Only(Box<[Origin]>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    None,
    Any,
    /// Joined as the response sends them.
    Only(Box<str>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    https: bool,
    host: Hosts,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    Any,
    /// With the leading dot.
    EndIn(Box<[u8]>),
    One(Box<[u8]>),
}

impl Cors {
    pub(crate) fn new(source: &wire::Cors) -> Self {
        let origins = if source.origins.iter().any(|origin| origin == "*") {
            Origins::Any
        } else {
            let parsed = source.origins.iter();
            Origins::Only(parsed.filter_map(|origin| Origin::pattern(origin.as_bytes())).collect())
        };
        Self {
            origins,
            methods: Names::new(&source.methods),
            headers: Names::new(&source.headers),
            expose: Names::new(&source.expose),
            credentials: source.credentials,
            max_age: source.max_age.to_string().into(),
        }
    }

    /// Whether responses differ between origins, so that they need `Vary: Origin`.
    #[must_use]
    pub fn varies_by_origin(&self) -> bool {
        self.credentials || self.origins != Origins::Any
    }

    /// The headers of a response to a page of this origin; none if the origin is not
    /// allowed.
    pub fn response_headers<'a>(&'a self, origin: &'a [u8]) -> impl Iterator<Item = Header<'a>> {
        let allowed = self.allowed(origin);
        let credentials = self.credentials.then_some(&b"true"[..]);
        let expose = match &self.expose {
            Names::Only(names) => Some(names.as_bytes()),
            Names::Any if !self.credentials => Some(&b"*"[..]),
            Names::Any | Names::None => None,
        };
        let headers = [
            ("Access-Control-Allow-Origin", allowed),
            ("Access-Control-Allow-Credentials", allowed.and(credentials)),
            ("Access-Control-Expose-Headers", allowed.and(expose)),
        ];
        headers.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }

    /// The headers of a response to a preflight; none if the origin is not allowed.
    pub fn preflight_headers<'a>(
        &'a self,
        preflight: &'a Preflight<'a>,
    ) -> impl Iterator<Item = Header<'a>> {
        let allowed = self.allowed(preflight.origin);
        let method = Some(preflight.method).filter(|method| is_token(method));
        let headers = [
            ("Access-Control-Allow-Methods", self.methods.granted(method, self.credentials)),
            (
                "Access-Control-Allow-Headers",
                self.headers.granted(preflight.headers, self.credentials),
            ),
            ("Access-Control-Max-Age", Some(self.max_age.as_bytes())),
        ];
        let granted = headers.into_iter().filter_map(|(name, value)| Some((name, value?)));
        self.response_headers(preflight.origin).chain(granted.filter(move |_| allowed.is_some()))
    }

    /// The value of Access-Control-Allow-Origin for a page of this origin.
    fn allowed<'a>(&self, origin: &'a [u8]) -> Option<&'a [u8]> {
        match &self.origins {
            Origins::Any if self.credentials => Some(origin),
            Origins::Any => Some(b"*"),
            Origins::Only(patterns) => {
                let (https, host, port) = parts(origin)?;
                let matches =
                    |one: &Origin| one.https == https && one.port == port && one.host.matches(host);
                patterns.iter().any(matches).then_some(origin)
            }
        }
    }
}

/// The method that a preflight announces; None for any other request.
pub fn requested_method(request: &impl Request) -> Option<Cow<'_, [u8]>> {
    if request.method() != b"OPTIONS" {
        return None;
    }
    request.header("origin")?;
    request.header("access-control-request-method")
}

impl Names {
    fn new(names: &[String]) -> Self {
        match names {
            [] => Self::None,
            names if names.iter().any(|name| name == "*") => Self::Any,
            names => Self::Only(names.join(", ").into()),
        }
    }

    /// The value that allows `requested`, if anything does.
    fn granted<'a>(&'a self, requested: Option<&'a [u8]>, credentials: bool) -> Option<&'a [u8]> {
        match self {
            Self::None => None,
            Self::Only(names) => Some(names.as_bytes()),
            Self::Any => requested.or((!credentials).then_some(b"*")),
        }
    }
}

impl Origin {
    fn pattern(text: &[u8]) -> Option<Self> {
        let (https, host, port) = parts(text)?;
        let host = match host {
            b"*" => Hosts::Any,
            [b'*', suffix @ ..] => Hosts::EndIn(suffix.into()),
            host => Hosts::One(host.into()),
        };
        Some(Self { https, host, port })
    }
}

impl Hosts {
    fn matches(&self, host: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::One(one) => one.eq_ignore_ascii_case(host),
            Self::EndIn(suffix) => {
                let start = host.len().saturating_sub(suffix.len());
                start > 0 && suffix.eq_ignore_ascii_case(&host[start..])
            }
        }
    }
}

/// Whether the scheme of an origin is https, its host, and its port.
fn parts(origin: &[u8]) -> Option<(bool, &[u8], u16)> {
    let text = std::str::from_utf8(origin).ok()?;
    let (scheme, authority) = text.split_once("://")?;
    let https = match scheme {
        _ if scheme.eq_ignore_ascii_case("https") => true,
        _ if scheme.eq_ignore_ascii_case("http") => false,
        _ => return None,
    };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (authority, if https { 443 } else { 80 }),
    };
    (!host.is_empty()).then_some((https, host.as_bytes(), port))
}

fn is_token(text: &[u8]) -> bool {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(is_token)
}
