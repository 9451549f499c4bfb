//! The checks that keep a response out, in their order.

use super::super::directives::{ResponseDirectives, Restriction};
use super::super::freshness::{is_heuristically_cacheable, LifetimeReason};
use super::super::headers::Headers;
use super::super::policy::Policy;
use super::super::syntax::{date, digits};
use super::super::time::Timestamp;
use super::super::{tags, vary};
use super::{NotStoredReason, StoreRequest, Windows};
use crate::wire::{RequestCookies, SetCookie};

type Check = Result<(), NotStoredReason>;

/// Fail with the reason if there is one to.
fn unless(fails: bool, reason: NotStoredReason) -> Check {
    if fails {
        Err(reason)
    } else {
        Ok(())
    }
}

/// The rules about status codes (RFC 9111, sections 3 and 3.3).
pub(super) fn status(status: u16, directives: &ResponseDirectives) -> Check {
    unless(status < 200, NotStoredReason::Interim)?;
    unless(status == 206, NotStoredReason::Partial)?;
    unless(status == 304, NotStoredReason::NotModified)?;
    unless(directives.must_understand && !is_understood(status), NotStoredReason::NotUnderstood)
}

/// The status codes whose requirements on caches (RFC 9110, section 15) this cache meets.
fn is_understood(status: u16) -> bool {
    is_heuristically_cacheable(status)
        || matches!(status, 201 | 202 | 205 | 302 | 303 | 307)
        || matches!(status, 400..=403 | 406..=409 | 411..=413 | 415 | 417 | 421 | 422 | 426 | 451)
        || matches!(status, 500 | 502..=505)
}

/// The rules about directives and credentials (RFC 9111, sections 3 and 3.5).
pub(super) fn directives(
    policy: &Policy,
    request: StoreRequest,
    status: u16,
    directives: &ResponseDirectives,
) -> Check {
    unless(!request.storable_method, NotStoredReason::Method)?;
    unless(request.no_store, NotStoredReason::RequestNoStore)?;
    // A status that is understood lifts no-store (section 5.2.2.3).
    let no_store = directives.no_store && !(directives.must_understand && is_understood(status));
    let ignored = policy.ignores_no_store_and_private;
    unless(no_store && !ignored, NotStoredReason::NoStore)?;
    let private = directives.private == Restriction::Whole;
    unless(private && !ignored, NotStoredReason::Private)?;
    let shared = directives.public || directives.s_maxage.is_some() || directives.must_revalidate;
    unless(request.authorization && !shared, NotStoredReason::Authorization)
}

/// The rules about other fields of the response.
pub(super) fn content(
    policy: &Policy,
    response: &impl Headers,
    directives: &ResponseDirectives,
) -> Check {
    vary::check(response).map_err(|unmatchable| match unmatchable {
        vary::Unmatchable::Any => NotStoredReason::VaryAny,
        vary::Unmatchable::TooMany => NotStoredReason::VaryTooMany,
    })?;
    // An origin that restricts the field itself allows the rest to be stored.
    let withheld = [directives.private, directives.no_cache].contains(&Restriction::Fields)
        && super::super::directives::withheld_fields(response)
            .any(|name| name.eq_ignore_ascii_case(b"set-cookie"));
    let cookie = response.has("set-cookie") && policy.set_cookie == SetCookie::DoNotStore;
    unless(cookie && !withheld, NotStoredReason::SetCookie)?;
    let mut tags = tags::Limits::default();
    let tagged =
        policy.tag_headers.iter().all(|&header| tags.read(header, response, |_| {}).is_ok());
    unless(!tagged, NotStoredReason::TooManyTags)?;
    let length = response.only("content-length").and_then(digits);
    let too_large = length.zip(policy.max_object_size).is_some_and(|(size, most)| size > most);
    unless(too_large, NotStoredReason::TooLarge)
}

/// varnishd records one line of each header that a response varies by.
pub(super) fn variant(request: StoreRequest) -> Check {
    unless(request.repeats_vary, NotStoredReason::VaryRepeated)
}

/// Cookies may have made the response one for a single user. It isn't shared unless the origin
/// says for how long it may be reused: a lifetime of zero says that it may not.
pub(super) fn cookies(policy: &Policy, request: StoreRequest, reusable: bool) -> Check {
    let matter = policy.request_cookies == RequestCookies::Explicit;
    unless(request.unkeyed_cookies && matter && !reusable, NotStoredReason::Cookie)
}

/// A response that is stale at once is stored for what its origin says about it, and to be
/// validated. A policy with a lifetime of zero stores nothing.
pub(super) fn zero(reason: LifetimeReason, kept: bool, windows: &Windows) -> Check {
    unless(reason.is_of_policy(), NotStoredReason::ZeroLifetime)?;
    unless(!kept && !windows.are_stated(), NotStoredReason::Stale)
}

/// Why a response for which nothing states a lifetime is not stored.
pub(super) fn unstated(status: u16) -> NotStoredReason {
    if status >= 500 {
        NotStoredReason::ServerError
    } else {
        NotStoredReason::Status
    }
}

/// Whether a request can validate the response later (RFC 9111, section 4.3.1).
pub(super) fn has_validator(response: &impl Headers, received: Timestamp) -> bool {
    let modified = response.only("last-modified");
    response.only("etag").is_some_and(|etag| !etag.is_empty())
        || modified.is_some_and(|text| date::parse(text, received.seconds()).is_some())
}
