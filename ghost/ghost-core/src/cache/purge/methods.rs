//! Requests that invalidate: PURGE, BAN and PURGEKEYS, as content management systems send them.
//!
//! In:  such a request, and the namespace whose objects it may reach.
//! Out: a [`Purge`] of that namespace, or a sentence that says what is supported. Nothing is
//!      carried out then.
//!
//! VCL that is written for these systems pastes the headers into a ban. Here each of them is
//! parsed: a tag is a tag, a host is a host, and no text can become another condition. What can't
//! be expressed exactly is rejected.
//!
//! | Request | Names |
//! |---|---|
//! | PURGE, `X-Purge-Method: default` or `exact` or absent | its own URI |
//! | PURGE, `X-Purge-Method: regex` or `prefix` | URIs of its host in which its path with query, as a regular expression, matches; or that begin so |
//! | PURGE or BAN with one of [`TAG_FIELDS`] | tags |
//! | PURGEKEYS with `xkey-purge` or `xkey-softpurge` | tags |
//! | BAN with `X-Host`, `X-Url` | these hosts, or the URIs of these hosts in which an expression matches |
//! | BAN without them | as PURGE with `regex` |
//!
//! ```
//! use ghost_core::cache::purge::methods::{Asked, Method};
//! use ghost_core::cache::purge::Named;
//!
//! let ask = |method: &[u8], headers: &[(&str, &[u8])]| {
//!     let method = Method::parse(method).unwrap();
//!     let asked = Asked { method, host: b"a.example", target: b"/x", namespace: "shop" };
//!     asked.read(headers)
//! };
//! let purge = ask(b"PURGE", &[])?;
//! assert!(matches!(&purge.targets[..], [Named::Uri { target, .. }] if **target == *b"/x"));
//! assert_eq!(purge.owners.unwrap().namespaces, ["shop"]);
//!
//! let magento = b"((^|,)cat_p_1(,|$))|((^|,)cms_b(,|$))";
//! let purge = ask(b"PURGE", &[("X-Magento-Tags-Pattern", magento)])?;
//! let [Named::Tags(tags)] = &purge.targets[..] else { panic!() };
//! assert_eq!(tags, &[&b"cat_p_1"[..], b"cms_b"]);
//!
//! let why = ask(b"BAN", &[("X-Cache-Tags", b"a.*")]).unwrap_err().to_string();
//! assert!(why.starts_with("X-Cache-Tags: only exact tags are supported"));
//! # Ok::<(), ghost_core::cache::purge::methods::Unsupported>(())
//! ```

use std::fmt;

use super::{Compiling, Named, Owners, Purge};
use crate::cache::headers::Headers;
use crate::cache::index::Mode;
use crate::cache::tags::separators;
use crate::target::PathRules;
use crate::wire::{DecodeError, TagHeader};
use crate::Host;

/// A method that invalidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// PURGE.
    Purge,
    /// BAN.
    Ban,
    /// PURGEKEYS.
    PurgeKeys,
}

impl Method {
    /// None for any other method.
    #[must_use]
    pub fn parse(method: &[u8]) -> Option<Self> {
        match method {
            b"PURGE" => Some(Self::Purge),
            b"BAN" => Some(Self::Ban),
            b"PURGEKEYS" => Some(Self::PurgeKeys),
            _ => None,
        }
    }
}

/// Fields with tags, or with an expression for tags. A request has one of them at most.
pub const TAG_FIELDS: [&str; 10] = [
    "X-Magento-Tags-Pattern",
    "X-Cache-Tags-Pattern",
    "X-Cache-Tags",
    "Cache-Tags",
    "Cache-Tag",
    "Purge-Cache-Tags",
    "Surrogate-Key",
    "xkey",
    XKEY_PURGE,
    XKEY_SOFTPURGE,
];
const XKEY_PURGE: &str = "xkey-purge";
const XKEY_SOFTPURGE: &str = "xkey-softpurge";
const PURGE_METHOD: &str = "X-Purge-Method";
const HOST: &str = "X-Host";
const URL: &str = "X-Url";
const CONTENT_TYPE: &str = "X-Content-Type";

/// Fields that restrict or extend what VCL for these systems invalidates. Without them a request
/// would invalidate something else than its sender means.
const FOREIGN: [&str; 2] = ["X-Pool", "X-Location-Id"];
/// Parts of names of fields that mean the same, in VCL that ghost doesn't know.
const MEANINGFUL: [&[u8]; 4] = [b"tag", b"key", b"ban", b"purge"];
/// Means all.
const ANY: &[u8] = b".*";

/// Why a request is not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported(String);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unsupported {}

impl From<DecodeError> for Unsupported {
    fn from(fault: DecodeError) -> Self {
        Self(fault.to_string())
    }
}

/// A request that invalidates.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Its method.
    pub method: Method,
    /// Its host, as [`Host`] normalises it.
    pub host: &'a [u8],
    /// Its path with query, as routes see it.
    pub target: &'a [u8],
    /// The namespace of the route that takes it.
    pub namespace: &'a str,
}

impl Asked<'_> {
    /// What it asks for.
    ///
    /// # Errors
    /// It can't be carried out exactly as it is meant.
    pub fn read(&self, headers: &[(&str, &[u8])]) -> Result<Purge, Unsupported> {
        if let Some((name, _)) = headers.iter().find(|(name, _)| is_foreign(name)) {
            return Err(unsupported(name, "is not supported; remove it"));
        }
        // Its own path has been through those of the Gateway.
        let paths = PathRules::default();
        let mut compiling = Compiling::new(&paths);
        let tagged = tagged(headers)?;
        let mode = match tagged {
            Some((XKEY_SOFTPURGE, _)) => Mode::Soft,
            _ => Mode::Hard,
        };
        let tags = tagged.map(|(name, value)| tags(name, value)).transpose()?;
        let targets = match self.method {
            Method::Purge => vec![self.purge(headers, tags, &mut compiling)?],
            Method::Ban => self.ban(headers, tags, &mut compiling)?,
            Method::PurgeKeys => vec![keys(headers, tags)?],
        };
        let namespaces = vec![self.namespace.to_owned()];
        let owners = Some(Owners { namespaces, routes: Vec::new() });
        Ok(Purge { mode, owners, targets })
    }

    fn purge(
        &self,
        headers: &(impl Headers + ?Sized),
        tags: Option<Named>,
        compiling: &mut Compiling<'_>,
    ) -> Result<Named, Unsupported> {
        for name in [HOST, URL, CONTENT_TYPE] {
            if restriction(headers, name)?.is_some() {
                return Err(unsupported(name, "belongs to BAN; remove it"));
            }
        }
        let how = single(headers, PURGE_METHOD)?.unwrap_or(b"default");
        match (how, tags) {
            (b"default" | b"tags", Some(tags)) => Ok(tags),
            (b"tags", None) => {
                Err(unsupported(PURGE_METHOD, "tags: X-Cache-Tags-Pattern is absent"))
            }
            (_, Some(_)) => Err(unsupported(PURGE_METHOD, "does not go with tags; remove it")),
            (b"default" | b"exact", None) => {
                Ok(Named::Uri { host: self.host.into(), target: self.target.into() })
            }
            (b"prefix", None) => {
                Ok(Named::Prefix { host: self.host.into(), prefix: self.target.into() })
            }
            (b"regex", None) => self.matching(compiling),
            _ => Err(unsupported(PURGE_METHOD, "write default, exact, prefix, regex or tags")),
        }
    }

    fn ban(
        &self,
        headers: &(impl Headers + ?Sized),
        tags: Option<Named>,
        compiling: &mut Compiling<'_>,
    ) -> Result<Vec<Named>, Unsupported> {
        if restriction(headers, CONTENT_TYPE)?.is_some() {
            return Err(unsupported(CONTENT_TYPE, "only .* is supported"));
        }
        if headers.has(PURGE_METHOD) {
            return Err(unsupported(PURGE_METHOD, "belongs to PURGE; remove it"));
        }
        let (host, url) = (restriction(headers, HOST)?, restriction(headers, URL)?);
        match (tags, host, url) {
            (Some(tags), None, None) => Ok(vec![tags]),
            (Some(_), _, _) => {
                Err(unsupported(if host.is_some() { HOST } else { URL }, "does not go with tags"))
            }
            (None, Some(hosts), None) => {
                Ok(hosts_of(hosts)?.into_iter().map(Named::Host).collect())
            }
            (None, Some(hosts), Some(url)) => {
                let pattern = compiling.pattern(text(url, URL)?, URL)?;
                let matching = |host| Named::Matching { host, pattern: pattern.clone() };
                Ok(hosts_of(hosts)?.into_iter().map(matching).collect())
            }
            (None, None, Some(_)) => {
                let name_them = r"name the hosts that X-Url is for, as ^(a\.example|b\.example)$";
                Err(unsupported(HOST, name_them))
            }
            (None, None, None) if headers.has(HOST) || headers.has(URL) => {
                Ok(vec![Named::Everything])
            }
            (None, None, None) if self.target == b"/" => Err(Unsupported(format!(
                "this BAN names nothing: send {}, X-Host or X-Url, or an expression as its \
                     path; BAN /.* is for the whole host",
                TAG_FIELDS.join(", ")
            ))),
            (None, None, None) => Ok(vec![self.matching(compiling)?]),
        }
    }

    fn matching(&self, compiling: &mut Compiling<'_>) -> Result<Named, Unsupported> {
        let pattern = compiling.pattern(text(self.target, "the path")?, "the path")?;
        Ok(Named::Matching { host: self.host.into(), pattern })
    }
}

/// Whether a request names URIs by its path as an expression or as a beginning. Another path, such
/// as one without its dot segments, would be another expression.
#[must_use]
pub fn reads_path_as_expression(method: Method, headers: &(impl Headers + ?Sized)) -> bool {
    match method {
        Method::Purge => {
            headers.values(PURGE_METHOD).any(|how| [&b"regex"[..], b"prefix"].contains(&how))
        }
        Method::Ban => !TAG_FIELDS.into_iter().chain([HOST, URL]).any(|name| headers.has(name)),
        Method::PurgeKeys => false,
    }
}

/// Whether a field means something that ghost doesn't understand.
fn is_foreign(name: &str) -> bool {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    let has = |part: &&[u8]| {
        name.as_bytes().windows(part.len()).any(|text| text.eq_ignore_ascii_case(part))
    };
    let is_known = TAG_FIELDS.into_iter().any(is) || is(PURGE_METHOD);
    FOREIGN.into_iter().any(is) || (!is_known && MEANINGFUL.iter().any(has))
}

fn keys(headers: &(impl Headers + ?Sized), tags: Option<Named>) -> Result<Named, Unsupported> {
    let named = headers.has(XKEY_PURGE) || headers.has(XKEY_SOFTPURGE);
    let absent = || Unsupported(format!("PURGEKEYS takes {XKEY_PURGE} or {XKEY_SOFTPURGE}"));
    tags.filter(|_| named).ok_or_else(absent)
}

/// The field with tags.
fn tagged(headers: &(impl Headers + ?Sized)) -> Result<Option<(&'static str, &[u8])>, Unsupported> {
    let mut found = None;
    for name in TAG_FIELDS {
        let Some(value) = single(headers, name)? else { continue };
        if let Some((first, _)) = found {
            return Err(Unsupported(format!("{first} and {name}: send one of them")));
        }
        found = Some((name, value));
    }
    Ok(found)
}

fn single<'h>(
    headers: &'h (impl Headers + ?Sized),
    name: &'static str,
) -> Result<Option<&'h [u8]>, Unsupported> {
    let mut values = headers.values(name);
    let first = values.next();
    match values.next() {
        None => Ok(first.map(<[u8]>::trim_ascii)),
        Some(_) => Err(unsupported(name, "is there more than once; send one")),
    }
}

/// A field whose value `.*` means no restriction.
fn restriction<'h>(
    headers: &'h (impl Headers + ?Sized),
    name: &'static str,
) -> Result<Option<&'h [u8]>, Unsupported> {
    Ok(single(headers, name)?.filter(|&value| value != ANY))
}

fn tags(field: &str, value: &[u8]) -> Result<Named, Unsupported> {
    let Form { separators, is_expression } = form(field);
    if !is_expression {
        let all: Vec<_> = list(value, separators).map(<[u8]>::to_vec).collect();
        let named = Some(Named::Tags(all)).filter(|_| list(value, separators).next().is_some());
        return named.ok_or_else(|| unsupported(field, "names no tag"));
    }
    if value == ANY {
        return Ok(Named::Everything);
    }
    names(value, separators).map(Named::Tags).ok_or_else(|| {
        unsupported(
            field,
            "only exact tags are supported: names, separated as in responses or by |, or an \
             expression such as (^|,)(one|two)(,|$); .* is everything",
        )
    })
}

/// How a field has its tags.
struct Form {
    separators: &'static [u8],
    /// Whether `|`, `\` and `.*` have a meaning, as in expressions.
    is_expression: bool,
}

/// The separators are those with which the field of a response is stored.
fn form(field: &str) -> Form {
    let (header, is_expression) = match field {
        "Surrogate-Key" => (TagHeader::SurrogateKey, false),
        "Cache-Tag" => (TagHeader::CacheTag, false),
        "xkey" | XKEY_PURGE | XKEY_SOFTPURGE => (TagHeader::Xkey, false),
        "X-Magento-Tags-Pattern" => (TagHeader::XMagentoTags, true),
        "X-Cache-Tags" | "X-Cache-Tags-Pattern" => (TagHeader::XCacheTags, true),
        _ => (TagHeader::CacheTags, true),
    };
    Form { separators: separators(header), is_expression }
}

fn list<'t>(text: &'t [u8], separators: &'t [u8]) -> impl Iterator<Item = &'t [u8]> {
    let names = text.split(|byte| separators.contains(byte)).map(<[u8]>::trim_ascii);
    names.filter(|name| !name.is_empty())
}

/// The tags that one of the known expressions consists of, or a list does.
fn names(text: &[u8], separators: &[u8]) -> Option<Vec<Vec<u8>>> {
    const BEFORE: &[u8] = b"(^|,)";
    const AFTER: &[u8] = b"(,|$)";
    if let Some(rest) = text.strip_prefix(b"((^|,)") {
        // Magento: each tag has its own.
        let all = rest.strip_suffix(b"(,|$))")?;
        return split_at_each(all, b"(,|$))|((^|,)").into_iter().map(literal).collect();
    }
    // FOSHttpCache, now and before.
    let between = text.strip_prefix(BEFORE).and_then(|rest| rest.strip_suffix(AFTER));
    if let Some(all) = between.or_else(|| text.strip_suffix(b"(,.+)?$")) {
        return alternatives(all).into_iter().map(literal).collect();
    }
    let separators = [separators, b"|"].concat();
    let all: Vec<_> = list(text, &separators).map(literal).collect::<Option<_>>()?;
    (!all.is_empty()).then_some(all)
}

fn split_at_each<'t>(text: &'t [u8], separator: &[u8]) -> Vec<&'t [u8]> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.windows(separator.len()).position(|found| found == separator) {
        parts.push(&rest[..at]);
        rest = &rest[at + separator.len()..];
    }
    parts.push(rest);
    parts
}

/// The alternatives of an expression, in parentheses or not. `\|` separates none.
fn alternatives(text: &[u8]) -> Vec<&[u8]> {
    let inner = text.strip_prefix(b"(").and_then(|rest| rest.strip_suffix(b")")).unwrap_or(text);
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, &byte) in inner.iter().enumerate() {
        if byte == b'|' && !escaped {
            parts.push(&inner[start..at]);
            start = at + 1;
        }
        escaped = byte == b'\\' && !escaped;
    }
    parts.push(&inner[start..]);
    parts
}

/// The text that an expression stands for, if that is one text. A dot counts as itself: these
/// systems don't escape it.
fn literal(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = text.iter().copied();
    let mut found = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        found.push(match byte {
            b'\\' => bytes.next().filter(|next| !next.is_ascii_alphanumeric())?,
            b'^' | b'$' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'*' | b'+' | b'?' | b'|' => {
                return None
            }
            byte => byte,
        });
    }
    (!found.is_empty()).then_some(found)
}

/// Names of hosts, as `^(a\.example|b\.example)$`.
fn hosts_of(text: &[u8]) -> Result<Vec<Box<[u8]>>, Unsupported> {
    let anchored = text.strip_prefix(b"^").and_then(|rest| rest.strip_suffix(b"$"));
    let inner = anchored.ok_or_else(|| {
        unsupported(
            HOST,
            "matches within names of other hosts, too: begin with ^ and end with $, as \
             ^(a\\.example|b\\.example)$",
        )
    })?;
    let host = |text| {
        let name = literal(text)?;
        let host = Host::parse(&name).ok().filter(|host| !host.is_empty())?;
        Some(host[..].into())
    };
    let all: Option<Vec<_>> = alternatives(inner).into_iter().map(host).collect();
    all.ok_or_else(|| {
        unsupported(
            HOST,
            r"only names of hosts are supported, as ^(a\.example|b\.example)$, and .*",
        )
    })
}

fn text<'t>(bytes: &'t [u8], field: &str) -> Result<&'t str, Unsupported> {
    std::str::from_utf8(bytes).map_err(|_| unsupported(field, "the expression is not UTF-8"))
}

fn unsupported(field: &str, reason: &str) -> Unsupported {
    Unsupported(format!("{field}: {reason}"))
}
