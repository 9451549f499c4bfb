//! Filters on the wire: what happens to a request and its response.

use serde::{Deserialize, Serialize};

use super::decode;

/// A header to set or to add.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Header {
    /// Its name, as the user wrote it.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Carried out in the order set, add, remove.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct HeaderModifier {
    /// Headers that replace every one of their name.
    #[serde(default)]
    pub set: Vec<Header>,
    /// Headers that stand beside those of their name.
    #[serde(default)]
    pub add: Vec<Header>,
    /// Names of headers that go.
    #[serde(default)]
    pub remove: Vec<String>,
}

/// What a [`PathModifier`] replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PathModifierType {
    /// The whole path.
    Full,
    /// The prefix that the rule matched.
    Prefix,
}

/// Replaces a path, or the prefix of it that the rule matched.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PathModifier {
    /// What is replaced.
    pub r#type: PathModifierType,
    /// What it is replaced with.
    pub value: String,
}

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scheme {
    /// `http`, port 80 unless said otherwise.
    #[default]
    Http,
    /// `https`, port 443 unless said otherwise.
    Https,
}

impl Scheme {
    /// As it stands before `://`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port that a URL of this scheme need not name.
    #[must_use]
    pub fn well_known_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A redirect. Absent parts come from the request; the port as the Gateway API says.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Redirect {
    /// Scheme of the Location.
    #[serde(default)]
    pub scheme: Option<Scheme>,
    /// Host of the Location.
    #[serde(default)]
    pub hostname: Option<String>,
    /// Port of the Location.
    #[serde(default)]
    pub port: Option<u16>,
    /// How the path of the Location comes from that of the request.
    #[serde(default)]
    pub path: Option<PathModifier>,
    /// 301, 302, 303, 307 or 308.
    #[serde(default = "found", deserialize_with = "decode::redirect_status")]
    pub status: u16,
}

/// A rewrite of what the backend sees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rewrite {
    /// The Host header that the backend sees.
    #[serde(default)]
    pub hostname: Option<String>,
    /// How the path that the backend sees comes from that of the request.
    #[serde(default)]
    pub path: Option<PathModifier>,
}

/// What happens to a request and its response, on a rule or on one of its backends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Filters {
    /// Changes to the request's headers.
    #[serde(default)]
    pub request: Option<HeaderModifier>,
    /// Changes to the response's headers.
    #[serde(default)]
    pub response: Option<HeaderModifier>,
    /// Changes to the request's Host and path.
    #[serde(default)]
    pub rewrite: Option<Rewrite>,
}

/// Who may read answers from pages of other origins.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Cors {
    /// Lower case: "*", or `scheme://host[:port]` whose host may be "*" or begin with "*.".
    #[serde(default)]
    pub origins: Vec<String>,
    /// Methods that pages may use; "*" alone is any.
    #[serde(default)]
    pub methods: Vec<String>,
    /// Headers that pages may send; "*" alone is any.
    #[serde(default)]
    pub headers: Vec<String>,
    /// Headers of answers that pages may read; "*" is any.
    #[serde(default)]
    pub expose: Vec<String>,
    /// Whether pages may use what the browser knows about its user.
    #[serde(default)]
    pub credentials: bool,
    /// For so many seconds browsers need not ask again.
    #[serde(default = "five")]
    pub max_age: u32,
}

fn found() -> u16 {
    302
}

fn five() -> u32 {
    5
}
