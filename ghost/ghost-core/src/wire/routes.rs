//! Routes and listeners on the wire.

use serde::{Deserialize, Serialize};

use super::{Cors, Filters, Redirect, Retry, Scheme, Timeouts};

/// How a path is compared.
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
    /// How the path is compared.
    pub r#type: PathMatchType,
    /// With what.
    pub value: String,
}

impl Default for PathMatch {
    fn default() -> Self {
        Self { r#type: PathMatchType::Prefix, value: "/".into() }
    }
}

/// How a value is compared.
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
    /// Which one.
    pub name: String,
    /// Compared with what.
    pub value: String,
    /// How.
    #[serde(default)]
    pub r#type: ValueMatchType,
}

/// Everything named here must hold. Without a path it is the prefix "/".
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Match {
    /// The path.
    #[serde(default)]
    pub path: PathMatch,
    /// The method, compared with case.
    #[serde(default)]
    pub method: Option<String>,
    /// Headers.
    #[serde(default)]
    pub headers: Vec<ValueMatch>,
    /// Query parameters.
    #[serde(default)]
    pub query: Vec<ValueMatch>,
}

/// One backendRef: its share of the rule's weight goes to a pool, or to a plain status.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Backend {
    /// Its share of the sum of all weights.
    #[serde(default = "one")]
    pub weight: u32,
    /// `namespace/name`.
    #[serde(default)]
    pub service: Option<String>,
    /// With `service` it names the pool `namespace/name:port`.
    #[serde(default)]
    pub port: Option<u16>,
    /// For whoever finds the endpoints.
    #[serde(default)]
    pub port_name: String,
    /// For whoever finds the endpoints: the host name of an `ExternalName` Service.
    #[serde(default)]
    pub external: Option<String>,
    /// Instead of a service, where the reference can't be resolved.
    #[serde(default)]
    pub status: Option<u16>,
    /// Filters of this backend alone.
    #[serde(default)]
    pub filters: Option<Filters>,
}

/// One rule of a route: a redirect, or a plain status, or a choice of backends.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rule {
    /// The name that the user gave it.
    #[serde(default)]
    pub name: Option<String>,
    /// The rule serves where one of these holds.
    #[serde(default = "everything")]
    pub matches: Vec<Match>,
    /// Filters of the rule.
    #[serde(default)]
    pub filters: Option<Filters>,
    /// Answer with a redirect.
    #[serde(default)]
    pub redirect: Option<Redirect>,
    /// Answer with a plain status.
    #[serde(default)]
    pub status: Option<u16>,
    /// Answer from one of these.
    #[serde(default)]
    pub backends: Vec<Backend>,
    /// How long it may take.
    #[serde(default)]
    pub timeouts: Option<Timeouts>,
    /// How often it is tried.
    #[serde(default)]
    pub retry: Option<Retry>,
    /// Who may read the answers from pages of other origins.
    #[serde(default)]
    pub cors: Option<Cors>,
}

/// A listener that takes the route, and the route's hostnames that meet its own ("*" is any).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Attachment {
    /// The listener's name.
    pub listener: String,
    /// Lower case: "*", "*.example.com" or "www.example.com".
    #[serde(default = "any_hostname")]
    pub hostnames: Vec<String>,
}

/// One route with everything that decides its precedence.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Route {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Seconds since 1970; the older one wins a tie.
    #[serde(default)]
    pub created: i64,
    /// Where it serves.
    pub attachments: Vec<Attachment>,
    /// What it does there.
    pub rules: Vec<Rule>,
}

/// A listener of the Gateway, on a varnishd socket that several listeners may share.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Listener {
    /// Its name, unique in the Gateway.
    pub name: String,
    /// `{proto}-{port}`, or "*" for every socket.
    pub socket: String,
    /// The port that clients see.
    #[serde(default)]
    pub port: u16,
    /// The scheme that clients see.
    #[serde(default)]
    pub scheme: Scheme,
    /// Lower case: "*", "*.example.com" or "www.example.com".
    #[serde(default = "any")]
    pub hostname: String,
}

fn one() -> u32 {
    1
}

fn everything() -> Vec<Match> {
    vec![Match::default()]
}

fn any_hostname() -> Vec<String> {
    vec![any()]
}

fn any() -> String {
    "*".into()
}
