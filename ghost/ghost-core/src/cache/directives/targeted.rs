//! Which field speaks to this cache: CDN-Cache-Control, Surrogate-Control or Cache-Control.

use super::super::headers::Headers;
use super::super::syntax::structured::{dictionary, Item, Malformed};
use super::super::syntax::{digits, is_token, list};
use super::{directives, first, Argument, ResponseDirectives, Restriction, Seconds};

/// The field that the directives of a response come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// CDN-Cache-Control, a structured field (RFC 9213, sections 2.1 and 3).
    CdnCacheControl,
    /// Surrogate-Control of the Edge Architecture Specification.
    SurrogateControl,
    /// Cache-Control (RFC 9111), and with it Expires.
    CacheControl,
}

impl Source {
    /// The name of the field.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::CdnCacheControl => "CDN-Cache-Control",
            Self::SurrogateControl => "Surrogate-Control",
            Self::CacheControl => "Cache-Control",
        }
    }
}

/// The directives that count, and where they come from. A targeted field that is present and
/// well-formed replaces Cache-Control and Expires (RFC 9213, section 2.2).
///
/// ```
/// use ghost_core::cache::directives::{effective, Source};
///
/// let cache_control = ("Cache-Control", &b"no-store"[..]);
/// let (directives, source) = effective(&[cache_control, ("CDN-Cache-Control", b"max-age=60")]);
/// assert!(!directives.no_store && source == Source::CdnCacheControl);
/// // Not a structured field, so it is ignored.
/// let (directives, source) = effective(&[cache_control, ("CDN-Cache-Control", b"max-age=,")]);
/// assert!(directives.no_store && source == Source::CacheControl);
/// ```
pub fn effective(response: &impl Headers) -> (ResponseDirectives, Source) {
    if let Some(directives) = cdn_cache_control(response) {
        return (directives, Source::CdnCacheControl);
    }
    if let Some(directives) = surrogate_control(response) {
        return (directives, Source::SurrogateControl);
    }
    (ResponseDirectives::of(response), Source::CacheControl)
}

/// None if it is absent, empty or malformed.
fn cdn_cache_control(response: &impl Headers) -> Option<ResponseDirectives> {
    let mut parsed = None;
    for line in response.values("cdn-cache-control") {
        let read = |key, item| apply(parsed.get_or_insert_default(), key, item);
        dictionary(line, read).map_err(|Malformed| ()).ok()?;
    }
    parsed
}

/// A later member of a dictionary replaces an earlier one of the same key.
fn apply(to: &mut ResponseDirectives, key: &[u8], item: Item<'_>) {
    let set = item != Item::Boolean(false);
    match key {
        b"max-age" => to.max_age = Some(seconds(item)),
        b"s-maxage" => to.s_maxage = Some(seconds(item)),
        b"stale-while-revalidate" => to.stale_while_revalidate = Some(seconds(item)),
        b"stale-if-error" => to.stale_if_error = Some(seconds(item)),
        b"no-cache" => to.no_cache = restriction(item),
        b"private" => to.private = restriction(item),
        b"no-store" => to.no_store = set,
        b"public" => to.public = item == Item::Boolean(true),
        b"must-revalidate" => to.must_revalidate = set,
        b"proxy-revalidate" => to.proxy_revalidate = set,
        b"must-understand" => to.must_understand = set,
        b"immutable" => to.immutable = item == Item::Boolean(true),
        _ => {}
    }
}

fn seconds(item: Item<'_>) -> Seconds {
    match item {
        Item::Integer(number) => u64::try_from(number).map_or(Seconds::Invalid, Seconds::new),
        _ => Seconds::Invalid,
    }
}

fn restriction(item: Item<'_>) -> Restriction {
    match item {
        Item::Boolean(false) => Restriction::None,
        Item::String(text) | Item::Token(text)
            if list::members(text).all(|member| is_token(member.text))
                && list::members(text).next().is_some() =>
        {
            Restriction::Fields
        }
        _ => Restriction::Whole,
    }
}

/// None unless it says something about storing: `content="ESI/1.0"` alone does not.
fn surrogate_control(response: &impl Headers) -> Option<ResponseDirectives> {
    let mut parsed = ResponseDirectives::default();
    for (directive, _) in response.values("surrogate-control").flat_map(directives) {
        if directive.is("no-store") {
            parsed.no_store = true;
        } else if directive.is("max-age") {
            surrogate_max_age(&mut parsed, directive.argument);
        }
    }
    (parsed.no_store || parsed.max_age.is_some()).then_some(parsed)
}

/// `max-age=600+60`: the second number is for how long it may be used stale.
fn surrogate_max_age(parsed: &mut ResponseDirectives, argument: Option<Argument<'_>>) {
    let plus = argument.and_then(|argument| {
        let at = argument.text.iter().position(|&byte| byte == b'+')?;
        let extension = digits(&argument.text[at + 1..]).map(Seconds::new)?;
        Some((Argument { text: &argument.text[..at], ..argument }, extension))
    });
    match plus {
        Some((age, extension)) if parsed.max_age.is_none() => {
            first(&mut parsed.max_age, Some(age));
            parsed.stale_while_revalidate = Some(extension);
            parsed.stale_if_error = Some(extension);
        }
        _ => first(&mut parsed.max_age, argument),
    }
}
