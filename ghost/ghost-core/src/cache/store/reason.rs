//! Why a response is not stored, and where its windows of staleness come from.

use std::fmt;

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotStoredReason {
    /// Responses to the method are not stored.
    Method,
    /// The status is 1xx.
    Interim,
    /// 206 is a part of a response.
    Partial,
    /// 304 updates a stored response.
    NotModified,
    /// `must-understand`, and the cache doesn't know the status.
    NotUnderstood,
    /// The request has `no-store`.
    RequestNoStore,
    /// The response has `no-store`.
    NoStore,
    /// The response has `private`.
    Private,
    /// The request has Authorization.
    Authorization,
    /// Vary has "*".
    VaryAny,
    /// Vary names more fields than the cache compares.
    VaryTooMany,
    /// The request repeats a header that Vary names.
    VaryRepeated,
    /// The response has Set-Cookie.
    SetCookie,
    /// The request has cookies that are not in the key, and the origin doesn't say for how long
    /// the response may be reused.
    Cookie,
    /// It has more tags than the index holds.
    TooManyTags,
    /// The index has no room for it.
    IndexFull,
    /// Its URI is longer than the index holds.
    TargetTooLong,
    /// Its body is too large.
    TooLarge,
    /// A 5xx without an explicit lifetime.
    ServerError,
    /// A status that needs an explicit lifetime.
    Status,
    /// The fetch is under another policy than the request.
    OtherPolicy,
    /// The policy's lifetime for it is zero.
    ZeroLifetime,
    /// It is stale on arrival, and there is no way to use or to validate it later.
    Stale,
}

impl NotStoredReason {
    /// Every reason, each at the place of its number.
    pub const ALL: [Self; 23] = [
        Self::Method,
        Self::Interim,
        Self::Partial,
        Self::NotModified,
        Self::NotUnderstood,
        Self::RequestNoStore,
        Self::NoStore,
        Self::Private,
        Self::Authorization,
        Self::VaryAny,
        Self::VaryTooMany,
        Self::VaryRepeated,
        Self::SetCookie,
        Self::Cookie,
        Self::TooManyTags,
        Self::IndexFull,
        Self::TargetTooLong,
        Self::TooLarge,
        Self::ServerError,
        Self::Status,
        Self::OtherPolicy,
        Self::ZeroLifetime,
        Self::Stale,
    ];

    /// One word, which never changes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::Interim => "interim",
            Self::Partial => "partial",
            Self::NotModified => "not-modified",
            Self::NotUnderstood => "must-understand",
            Self::RequestNoStore => "request-no-store",
            Self::NoStore => "no-store",
            Self::Private => "private",
            Self::Authorization => "authorization",
            Self::VaryAny => "vary-any",
            Self::VaryTooMany => "vary-too-many",
            Self::VaryRepeated => "vary-repeated",
            Self::SetCookie => "set-cookie",
            Self::Cookie => "cookie",
            Self::TooManyTags => "too-many-tags",
            Self::IndexFull => "index-full",
            Self::TargetTooLong => "target-too-long",
            Self::TooLarge => "too-large",
            Self::ServerError => "server-error",
            Self::Status => "status",
            Self::OtherPolicy => "other-policy",
            Self::ZeroLifetime => "zero-lifetime",
            Self::Stale => "stale-on-arrival",
        }
    }

    /// Whether another request for the same URI may get a response that is stored. Then the
    /// response says little about the next one. Room may be there at any time.
    #[must_use]
    pub fn is_of_request(self) -> bool {
        matches!(
            self,
            Self::Method
                | Self::RequestNoStore
                | Self::Authorization
                | Self::Cookie
                | Self::VaryRepeated
                | Self::IndexFull
        )
    }
}

impl fmt::Display for NotStoredReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Method => "the cache stores responses to GET (RFC 9111, section 3)",
            Self::Interim => "a response is stored if its status is final (RFC 9111, section 3)",
            Self::Partial => "the cache stores no parts of responses (RFC 9111, section 3.3)",
            Self::NotModified => "304 updates a stored response (RFC 9111, section 4.3.4)",
            Self::NotUnderstood => {
                "must-understand requires a status that the cache understands (RFC 9111, section 5.2.2.3)"
            }
            Self::RequestNoStore => "the request has no-store (RFC 9111, section 5.2.1.5)",
            Self::NoStore => "the response has no-store (RFC 9111, section 5.2.2.5)",
            Self::Private => "the response is private (RFC 9111, section 5.2.2.7)",
            Self::Authorization => {
                "the request has Authorization, and the response has neither public nor s-maxage nor must-revalidate (RFC 9111, section 3.5)"
            }
            Self::VaryAny => "a response with Vary: * fits no other request (RFC 9111, section 4.1)",
            Self::VaryTooMany => "Vary names more fields than the cache compares",
            Self::VaryRepeated => "the request repeats a header that Vary names",
            Self::SetCookie => "the response has Set-Cookie, and the policy's setCookie is doNotStore",
            Self::Cookie => {
                "the request has cookies outside of the policy's cacheKey.cookies, the origin doesn't say for how long the response may be reused, and the policy's requestCookies is explicit"
            }
            Self::TooManyTags => "the response has more tags than the index holds, so that a purge could miss it",
            Self::IndexFull => {
                "the index of cached objects, or its share for the route's namespace, has reached its limit, so that a purge would miss the response"
            },
            Self::TargetTooLong => "path and query are longer than the index of cached objects holds",
            Self::TooLarge => "the body is larger than the policy's maxObjectSize, or than half of the store",
            Self::ServerError => "a 5xx is stored if its origin or the policy's statusTTLs states a lifetime",
            Self::Status => {
                "the status is stored if its origin or the policy's statusTTLs states a lifetime (RFC 9111, section 4.2.2)"
            }
            Self::OtherPolicy => {
                "the policy changed while the response was fetched, or std.rollback(bereq) removed what it does to the request"
            }
            Self::ZeroLifetime => {
                "the origin states no lifetime that counts, and that of the policy is zero"
            }
            Self::Stale => {
                "the response is stale on arrival, and it can neither be validated nor used stale (RFC 9111, section 4.2)"
            }
        })
    }
}

/// Where a window of staleness comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowReason {
    /// `no-cache`: every use is validated.
    NoCache,
    /// `must-revalidate` forbids it.
    MustRevalidate,
    /// `proxy-revalidate` forbids it.
    ProxyRevalidate,
    /// `s-maxage` forbids it.
    SMaxage,
    /// The origin states a lifetime of zero.
    AlwaysStale,
    /// The origin states it.
    Origin,
    /// The policy does, or nothing does.
    Policy,
}

impl WindowReason {
    /// One word, which never changes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoCache => "no-cache",
            Self::MustRevalidate => "must-revalidate",
            Self::ProxyRevalidate => "proxy-revalidate",
            Self::SMaxage => "s-maxage",
            Self::AlwaysStale => "always-stale",
            Self::Origin => "origin",
            Self::Policy => "policy",
        }
    }
}

impl fmt::Display for WindowReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoCache => "no-cache requires a validation of every use (RFC 9111, section 5.2.2.4)",
            Self::MustRevalidate => "must-revalidate forbids stale use (RFC 9111, section 5.2.2.2)",
            Self::ProxyRevalidate => "proxy-revalidate forbids stale use (RFC 9111, section 5.2.2.8)",
            Self::SMaxage => {
                "s-maxage forbids stale use that the origin doesn't allow by itself (RFC 9111, section 5.2.2.10)"
            }
            Self::AlwaysStale => {
                "the origin states a lifetime of zero, so that the policy's grace or staleWhileRevalidate doesn't apply"
            }
            Self::Origin => "the origin states the window (RFC 5861)",
            Self::Policy => "the policy's grace, staleWhileRevalidate or staleIfError applies",
        })
    }
}
