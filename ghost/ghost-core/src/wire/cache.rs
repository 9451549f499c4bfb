//! Cache policies on the wire, with rules and listeners; durations are milliseconds.

use serde::{Deserialize, Serialize};

/// What a cache does with the responses of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools)] // they are independent
pub struct CachePolicy {
    /// `namespace/name` of the policy, for people who ask why.
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    /// The policy is invalid: nothing is cached under it. It still replaces a less specific one.
    #[serde(skip_serializing_if = "is_default")]
    pub off: bool,
    /// The lifetime of a response whose origin states none.
    #[serde(rename = "defaultTTL", skip_serializing_if = "is_default")]
    pub default_ttl: Option<u64>,
    /// The lifetime of a response, whatever its origin states. Exclusive with `defaultTTL`.
    #[serde(rename = "forcedTTL", skip_serializing_if = "is_default")]
    pub forced_ttl: Option<u64>,
    /// Whether `forcedTTL` also applies to responses with `no-store` or `private`. Then pages
    /// of one user may reach others.
    #[serde(skip_serializing_if = "is_default")]
    pub unsafe_ignore_no_store_and_private: bool,
    /// Lifetimes by status, in place of `defaultTTL` or `forcedTTL`.
    #[serde(rename = "statusTTLs", skip_serializing_if = "is_default")]
    pub status_ttls: Vec<StatusTtl>,
    /// How much of the time since Last-Modified is the lifetime of a response whose origin
    /// states none, in percent; 0 is off. `defaultTTL` applies without Last-Modified.
    #[serde(skip_serializing_if = "is_default")]
    pub heuristic_percent: u8,
    /// How long a stale response is used while it is validated, whatever the origin states.
    /// Exclusive with `staleWhileRevalidate`.
    #[serde(skip_serializing_if = "is_default")]
    pub grace: Option<u64>,
    /// The same, where the origin states nothing about it.
    #[serde(skip_serializing_if = "is_default")]
    pub stale_while_revalidate: Option<u64>,
    /// How long a stale response is used if the origin fails, where the origin states nothing
    /// about it.
    #[serde(skip_serializing_if = "is_default")]
    pub stale_if_error: Option<u64>,
    /// How long a stale response with a validator is kept, so that validating it may save its
    /// body. An hour if absent.
    #[serde(skip_serializing_if = "is_default")]
    pub keep: Option<u64>,
    /// By how much lifetimes are shortened at random, in percent.
    #[serde(skip_serializing_if = "is_default")]
    pub jitter_percent: u8,
    /// How long requests don't wait for each other after a response that wasn't stored. Two
    /// minutes if absent.
    #[serde(skip_serializing_if = "is_default")]
    pub hit_for_miss: Option<u64>,
    /// What requests have in common that get the same response.
    #[serde(skip_serializing_if = "is_default")]
    pub cache_key: CacheKey,
    /// Which requests pass the cache.
    #[serde(skip_serializing_if = "is_default")]
    pub bypass: Bypass,
    /// What becomes of a response with Set-Cookie.
    #[serde(skip_serializing_if = "is_default")]
    pub set_cookie: SetCookie,
    /// What becomes of cookies of requests that are not in the key.
    #[serde(skip_serializing_if = "is_default")]
    pub request_cookies: RequestCookies,
    /// Whether the cache ignores the Cache-Control of requests.
    #[serde(skip_serializing_if = "is_default")]
    pub ignore_request_directives: bool,
    /// How often clients may force a validation of a fresh response.
    #[serde(skip_serializing_if = "is_default")]
    pub revalidation: Revalidation,
    /// Whether Vary compares header values byte for byte, instead of by their meaning.
    #[serde(skip_serializing_if = "is_default")]
    pub exact_vary: bool,
    /// Fields of responses that have tags.
    #[serde(skip_serializing_if = "is_default")]
    pub tag_headers: Vec<TagHeader>,
    /// Who gets the field Cache-Status.
    #[serde(skip_serializing_if = "is_default")]
    pub cache_status: CacheStatus,
    /// The largest body to store, in bytes.
    #[serde(skip_serializing_if = "is_default")]
    pub max_object_size: Option<u64>,
    /// Whether texts are compressed before they are stored.
    #[serde(skip_serializing_if = "is_default")]
    pub gzip: bool,
    /// Whether edge side includes are processed.
    #[serde(skip_serializing_if = "is_default")]
    pub esi: bool,
}

/// The lifetime of responses with one status or of one class.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct StatusTtl {
    /// As `404` or `5xx`.
    pub status: String,
    /// The lifetime; 0 is none.
    pub ttl: u64,
}

/// What tells objects apart, beside rule, listener, host and path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct CacheKey {
    /// Names of headers.
    #[serde(skip_serializing_if = "is_default")]
    pub headers: Vec<String>,
    /// Names of cookies.
    #[serde(skip_serializing_if = "is_default")]
    pub cookies: Vec<String>,
    /// Which query parameters count; all of them by default.
    #[serde(skip_serializing_if = "is_default")]
    pub query_parameters: QueryParameters,
    /// Whether the scheme counts.
    #[serde(skip_serializing_if = "is_true")]
    pub scheme: bool,
    /// Whether the listener counts.
    #[serde(skip_serializing_if = "is_true")]
    pub listener: bool,
}

impl Default for CacheKey {
    fn default() -> Self {
        Self {
            headers: Vec::new(),
            cookies: Vec::new(),
            query_parameters: QueryParameters::default(),
            scheme: true,
            listener: true,
        }
    }
}

/// Globs over the names of query parameters; only one of the lists may be present.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct QueryParameters {
    /// Only these count. An empty list is none.
    #[serde(skip_serializing_if = "is_default")]
    pub include: Option<Vec<String>>,
    /// All but these count.
    #[serde(skip_serializing_if = "is_default")]
    pub exclude: Option<Vec<String>>,
}

/// Requests that pass the cache: those that meet one of the conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Bypass {
    /// Conditions on headers.
    #[serde(skip_serializing_if = "is_default")]
    pub headers: Vec<BypassHeader>,
    /// Globs over the names of cookies.
    #[serde(skip_serializing_if = "is_default")]
    pub cookies: Vec<String>,
    /// Methods, in addition to those that are never cached.
    #[serde(skip_serializing_if = "is_default")]
    pub methods: Vec<String>,
}

/// A header whose presence, or whose value, makes a request pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BypassHeader {
    /// Its name.
    pub name: String,
    /// A regular expression over a whole line of it; any line if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub value_regex: Option<String>,
}

/// What becomes of a response with Set-Cookie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SetCookie {
    /// It isn't stored.
    #[default]
    DoNotStore,
    /// It is stored without the field.
    Remove,
}

/// What becomes of cookies that are not in the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RequestCookies {
    /// They reach the origin. A response to them is stored only if its origin, or `forcedTTL`,
    /// states a lifetime.
    #[default]
    Explicit,
    /// They don't reach the origin.
    Remove,
    /// They reach the origin, and don't matter for storing.
    Ignore,
}

/// How many validations clients may force in a minute; beyond that they get what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Revalidation {
    /// Of one object.
    pub per_object: u32,
    /// Of all objects of a route.
    pub per_route: u32,
}

impl Default for Revalidation {
    fn default() -> Self {
        Self { per_object: 60, per_route: 6_000 }
    }
}

/// A field of responses that has tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TagHeader {
    /// Separated by spaces.
    #[serde(rename = "Surrogate-Key")]
    SurrogateKey,
    /// Separated by commas.
    #[serde(rename = "Cache-Tag")]
    CacheTag,
    /// Separated by spaces or commas.
    #[serde(rename = "xkey")]
    Xkey,
    /// A list of strings (RFC 9875).
    #[serde(rename = "Cache-Groups")]
    CacheGroups,
    /// Drupal's, separated by spaces or commas.
    #[serde(rename = "Cache-Tags")]
    CacheTags,
    /// `FOSHttpCache`'s, separated by commas.
    #[serde(rename = "X-Cache-Tags")]
    XCacheTags,
    /// Magento's, separated by commas.
    #[serde(rename = "X-Magento-Tags")]
    XMagentoTags,
}

/// Who gets the field Cache-Status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CacheStatus {
    /// No client.
    #[default]
    Off,
    /// Every client.
    On,
    /// Clients at trusted addresses.
    Trusted,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes references
fn is_true(value: &bool) -> bool {
    *value
}
