//! Routes and listeners on the wire.

use serde::{Deserialize, Serialize};

use super::{CachePolicy, Cors, Filters, Redirect, Retry, Scheme, Timeouts};

/// How to compare a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PathMatchType {
    /// Byte for byte.
    Exact,
    /// By whole segments.
    Prefix,
    /// By a regular expression over the whole path.
    Regex,
}

/// A condition on the path. A prefix is stored without its trailing slash ("/" stays).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PathMatch {
    /// How to compare the path.
    pub r#type: PathMatchType,
    /// What to compare it with.
    pub value: String,
}

impl Default for PathMatch {
    fn default() -> Self {
        Self { r#type: PathMatchType::Prefix, value: "/".into() }
    }
}

/// How to compare a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ValueMatchType {
    /// Byte for byte.
    #[default]
    Exact,
    /// By a regular expression over the whole value.
    Regex,
}

/// A condition on a header or a query parameter. Header names are lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ValueMatch {
    /// The name of the header or parameter.
    pub name: String,
    /// What to compare its value with.
    pub value: String,
    /// How to compare it.
    #[serde(default)]
    pub r#type: ValueMatchType,
}

/// A match: every condition must hold. The default path is the prefix "/".
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Match {
    /// The condition on the path.
    pub path: PathMatch,
    /// The method, compared with case.
    pub method: Option<String>,
    /// Conditions on headers.
    pub headers: Vec<ValueMatch>,
    /// Conditions on query parameters.
    pub query: Vec<ValueMatch>,
}

/// A backendRef. A pool serves its share of the requests, or a plain status does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Backend {
    /// Its share of the sum of all weights.
    pub weight: u32,
    /// `namespace/name`.
    pub service: Option<String>,
    /// With `service` it names the pool `namespace/name:port`.
    pub port: Option<u16>,
    /// The name of the port; the chaperone finds endpoints by it. The router ignores it.
    pub port_name: String,
    /// The host name of an `ExternalName` Service; the chaperone resolves it. The router
    /// ignores it.
    pub external: Option<String>,
    /// The status of a reference that can't be resolved, in place of a service.
    pub status: Option<u16>,
    /// Filters that apply to this backend only.
    pub filters: Option<Filters>,
}

impl Default for Backend {
    fn default() -> Self {
        Self {
            weight: 1,
            service: None,
            port: None,
            port_name: String::new(),
            external: None,
            status: None,
            filters: None,
        }
    }
}

/// A rule of a route: a redirect, a plain status, or a choice of backends.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Rule {
    /// The name that the user gave it.
    pub name: Option<String>,
    /// Alternatives: the rule matches a request that meets one of them.
    pub matches: Vec<Match>,
    /// Filters of the rule.
    pub filters: Option<Filters>,
    /// Respond with a redirect.
    pub redirect: Option<Redirect>,
    /// Respond with this status, without a backend.
    pub status: Option<u16>,
    /// Forward the request to one of these.
    pub backends: Vec<Backend>,
    /// How long it may take.
    pub timeouts: Option<Timeouts>,
    /// When to try again.
    pub retry: Option<Retry>,
    /// Which pages of other origins may read the response.
    pub cors: Option<Cors>,
    /// Its matches are what is left of those that the user wrote, because a part of them is
    /// invalid. A regular expression in such a path ranks below every other path.
    pub approximate: bool,
    /// What the cache does with the responses. Without it the listener's policy counts.
    pub cache: Option<CachePolicy>,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            name: None,
            matches: vec![Match::default()],
            filters: None,
            redirect: None,
            status: None,
            backends: Vec::new(),
            timeouts: None,
            retry: None,
            cors: None,
            approximate: false,
            cache: None,
        }
    }
}

/// A listener that accepts the route, and the route's hostnames that intersect its own ("*"
/// is any).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Attachment {
    /// The listener's name.
    pub listener: String,
    /// Lower case: "*", "*.example.com" or "www.example.com".
    #[serde(default = "any_hostname")]
    pub hostnames: Vec<String>,
}

/// A route with everything that decides its precedence.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Route {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Creation time in seconds since 1970; the older route wins a tie.
    #[serde(default)]
    pub created: i64,
    /// The listeners and hostnames that it serves.
    pub attachments: Vec<Attachment>,
    /// Its rules.
    pub rules: Vec<Rule>,
}

/// A listener of the Gateway, on a socket that several listeners may share.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Listener {
    /// Its name, unique in the Gateway.
    pub name: String,
    /// The name of the socket, or "*" for every socket that no listener names.
    pub socket: String,
    /// The port that clients connect to.
    #[serde(default)]
    pub port: u16,
    /// The scheme that clients use.
    #[serde(default)]
    pub scheme: Scheme,
    /// Lower case: "*", "*.example.com" or "www.example.com".
    #[serde(default = "any")]
    pub hostname: String,
    /// What the cache does with the responses of rules that have no policy. Without either,
    /// nothing is cached.
    #[serde(default)]
    pub cache: Option<CachePolicy>,
}

/// Every host on every socket.
impl Default for Listener {
    fn default() -> Self {
        Self {
            name: String::new(),
            socket: any(),
            port: 0,
            scheme: Scheme::Http,
            hostname: any(),
            cache: None,
        }
    }
}

fn any_hostname() -> Vec<String> {
    vec![any()]
}

fn any() -> String {
    "*".into()
}
