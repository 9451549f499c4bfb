//! Filters on the wire.

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

/// Changes to headers, in the order set, add, remove.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct HeaderModifier {
    /// Headers that replace all others of their name.
    pub set: Vec<Header>,
    /// Headers that are added to others of their name.
    pub add: Vec<Header>,
    /// Names of headers to remove.
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
    /// The replacement.
    pub value: String,
}

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scheme {
    /// `http`, with the default port 80.
    #[default]
    Http,
    /// `https`, with the default port 443.
    Https,
}

impl Scheme {
    /// The scheme as a URL begins with it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port of a URL that names none.
    #[must_use]
    pub fn well_known_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A redirect. What it leaves out comes from the request; [`redirect`](crate::redirect)
/// has the rule for the port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Redirect {
    /// Scheme of the Location.
    pub scheme: Option<Scheme>,
    /// Host of the Location.
    pub hostname: Option<String>,
    /// Port of the Location.
    pub port: Option<u16>,
    /// How to change the path of the request.
    pub path: Option<PathModifier>,
    /// 301, 302, 303, 307 or 308.
    #[serde(deserialize_with = "decode::redirect_status")]
    pub status: u16,
}

impl Default for Redirect {
    fn default() -> Self {
        Self { scheme: None, hostname: None, port: None, path: None, status: 302 }
    }
}

/// A change of the request that only the backend sees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Rewrite {
    /// The Host header for the backend.
    pub hostname: Option<String>,
    /// How to change the path of the request.
    pub path: Option<PathModifier>,
}

/// The filters of a rule or of one of its backends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Filters {
    /// Changes to the headers of the request.
    pub request: Option<HeaderModifier>,
    /// Changes to the headers of the response.
    pub response: Option<HeaderModifier>,
    /// Changes to Host and path of the request.
    pub rewrite: Option<Rewrite>,
}

/// Which pages of other origins may read responses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Cors {
    /// Lower case: "*", or `scheme://host[:port]` whose host may be "*" or begin with "*.".
    pub origins: Vec<String>,
    /// Methods that pages may use; "*" is any.
    pub methods: Vec<String>,
    /// Headers that pages may send; "*" is any.
    pub headers: Vec<String>,
    /// Headers of responses that pages may read; "*" is any.
    pub expose: Vec<String>,
    /// Whether pages may send credentials such as cookies.
    pub credentials: bool,
    /// For how many seconds browsers may cache the answer to a preflight.
    pub max_age: u32,
}

impl Default for Cors {
    fn default() -> Self {
        Self {
            origins: Vec::new(),
            methods: Vec::new(),
            headers: Vec::new(),
            expose: Vec::new(),
            credentials: false,
            max_age: 5,
        }
    }
}
