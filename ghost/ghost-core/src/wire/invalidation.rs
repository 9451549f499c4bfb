//! Invalidations as the data plane asks for them on the reload socket.

use serde::Deserialize;

/// Which stored responses clients are not to get any more.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invalidation {
    /// What happens to them.
    #[serde(default)]
    pub mode: InvalidationMode,
    /// Restricted to objects of these routes, `namespace/name`, and of the routes of `namespaces`.
    /// None in both: to none.
    #[serde(default)]
    pub routes: Option<Vec<String>>,
    /// Restricted to objects of the routes of these namespaces, whether or not they still serve,
    /// and of `routes`.
    #[serde(default)]
    pub namespaces: Option<Vec<String>>,
    /// Each has a count of its own.
    pub targets: Vec<InvalidationTarget>,
}

/// What happens to an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InvalidationMode {
    /// It becomes stale.
    Soft,
    /// It is removed.
    #[default]
    Hard,
}

/// What an invalidation names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InvalidationTarget {
    /// A URI, in all variants and under all keys.
    Uri(InvalidatedUri),
    /// The URIs of a host that begin so.
    Prefix(InvalidatedPrefix),
    /// The URIs of a host in which a regular expression matches.
    Matching(InvalidatedMatches),
    /// All of a host.
    Host(String),
    /// Objects with one of these tags. UTF-8, in which `%` and two hexadecimal digits are a byte.
    Tags(Vec<String>),
    /// All of a route, `namespace/name`.
    Route(String),
    /// All of them; the value is true.
    Everything(bool),
}

/// A URI.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvalidatedUri {
    /// Its host.
    pub host: String,
    /// Path and query.
    pub target: String,
}

/// URIs that begin alike.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvalidatedPrefix {
    /// Their host.
    pub host: String,
    /// The beginning of path and query.
    pub prefix: String,
}

/// URIs with a match.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvalidatedMatches {
    /// Their host.
    pub host: String,
    /// A regular expression for path and query.
    pub pattern: String,
}
