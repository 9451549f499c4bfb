//! Tags of responses: names by which many objects are invalidated together.
//!
//! In:  fields such as Surrogate-Key.
//! Out: tags, or [`TooMany`]. Half of the tags would make a purge miss objects without a word,
//!      so a response whose tags exceed the limits is not stored.
//!
//! Tags are bytes, compared with case. Each field has the separators of the software that
//! sends it. Cache-Groups is a list of strings (RFC 9875, section 2). As every structured field
//! it counts as a whole: one malformed line, and the response has no groups (RFC 9651, section 2).
//!
//! ```
//! use ghost_core::cache::tags::Limits;
//! use ghost_core::wire::TagHeader;
//!
//! let lines = [("Surrogate-Key", &b"post-1  front"[..]), ("surrogate-key", b"a,b"),
//!              ("Cache-Groups", br#""scripts", "a \"b\"""#)];
//! let mut limits = Limits::default();
//! let mut tags = Vec::new();
//! limits.read(TagHeader::SurrogateKey, &lines, |tag| tags.push(tag.to_vec()))?;
//! limits.read(TagHeader::CacheGroups, &lines, |tag| tags.push(tag.to_vec()))?;
//! let expected: [&[u8]; 5] = [b"post-1", b"front", b"a,b", b"scripts", br#"a \"b\""#];
//! assert_eq!(tags, expected);
//! # Ok::<(), ghost_core::cache::tags::TooMany>(())
//! ```

use super::headers::Headers;
use super::syntax::structured;
use crate::wire::TagHeader;

/// The most tags of a response.
pub const MAX_TAGS: usize = 1024;
/// The most bytes of all tags of a response.
pub const MAX_BYTES: usize = 32 << 10;
/// The longest tag.
pub const MAX_TAG: usize = 1024;

/// The tags of a response exceed the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

impl std::fmt::Display for TooMany {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "more than {MAX_TAGS} tags, {MAX_BYTES} bytes of tags, or {MAX_TAG} bytes in one tag"
        )
    }
}

impl std::error::Error for TooMany {}

/// The name of the field.
#[must_use]
pub fn field(header: TagHeader) -> &'static str {
    match header {
        TagHeader::SurrogateKey => "surrogate-key",
        TagHeader::CacheTag => "cache-tag",
        TagHeader::Xkey => "xkey",
        TagHeader::CacheGroups => "cache-groups",
        TagHeader::CacheTags => "cache-tags",
        TagHeader::XCacheTags => "x-cache-tags",
        TagHeader::XMagentoTags => "x-magento-tags",
    }
}

/// What stands between the tags of a field; nothing for one with another syntax.
pub(super) fn separators(header: TagHeader) -> &'static [u8] {
    match header {
        TagHeader::CacheGroups => b"",
        TagHeader::SurrogateKey => b" \t",
        TagHeader::CacheTag | TagHeader::XCacheTags | TagHeader::XMagentoTags => b",",
        TagHeader::Xkey | TagHeader::CacheTags => b" \t,",
    }
}

/// What the tags of one response may still take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    tags: usize,
    bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { tags: MAX_TAGS, bytes: MAX_BYTES }
    }
}

impl Limits {
    /// Report each tag of a field.
    ///
    /// # Errors
    /// They exceed the limits; tags before that are reported.
    pub fn read<'a>(
        &mut self,
        header: TagHeader,
        response: &'a impl Headers,
        mut each: impl FnMut(&'a [u8]),
    ) -> Result<(), TooMany> {
        let malformed = |line| structured::strings(line, |_| {}).is_err();
        if header == TagHeader::CacheGroups && response.values(field(header)).any(malformed) {
            return Ok(());
        }
        for line in response.values(field(header)) {
            match header {
                TagHeader::CacheGroups => self.read_groups(line, &mut each)?,
                _ => self.read_line(line, separators(header), &mut each)?,
            }
        }
        Ok(())
    }

    fn read_line<'a>(
        &mut self,
        line: &'a [u8],
        separators: &[u8],
        each: &mut impl FnMut(&'a [u8]),
    ) -> Result<(), TooMany> {
        let tags = line.split(|byte| separators.contains(byte)).map(<[u8]>::trim_ascii);
        for tag in tags.filter(|tag| !tag.is_empty()) {
            self.spend(tag)?;
            each(tag);
        }
        Ok(())
    }

    fn read_groups<'a>(
        &mut self,
        line: &'a [u8],
        each: &mut impl FnMut(&'a [u8]),
    ) -> Result<(), TooMany> {
        let mut result = Ok(());
        let report = |tag| {
            if result.is_ok() {
                result = self.spend(tag);
                if result.is_ok() {
                    each(tag);
                }
            }
        };
        structured::strings(line, report).map_or(Ok(()), |()| result)
    }

    fn spend(&mut self, tag: &[u8]) -> Result<(), TooMany> {
        self.tags = self.tags.checked_sub(1).ok_or(TooMany)?;
        self.bytes = self.bytes.checked_sub(tag.len()).ok_or(TooMany)?;
        (tag.len() <= MAX_TAG).then_some(()).ok_or(TooMany)
    }
}
