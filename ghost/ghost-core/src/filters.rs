//! The filters of a rule or of a backend.
//!
//! In:  [`wire::Filters`].
//! Out: header lines that are formatted once, so that applying them copies no text.
//!
//! ghost-core computes what a filter changes; the caller owns the request and applies it.
//! The order is: the request headers of the rule, those of the backend, then the rewrite
//! (the backend's wins over the rule's, for hostname and path separately). A response gets
//! the headers of the backend, then those of the rule.
//!
//! ```
//! use ghost_core::{wire, HeaderModifier, Route};
//!
//! fn apply(modifier: &HeaderModifier, headers: &mut Vec<String>) {
//!     let named = |line: &String, name: &str| {
//!         line.split_once(':').is_some_and(|(other, _)| other.eq_ignore_ascii_case(name))
//!     };
//!     for set in &modifier.set {
//!         headers.retain(|line| !named(line, set.name()));
//!         headers.push(set.line().to_owned());
//!     }
//!     headers.extend(modifier.add.iter().map(|add| add.line().to_owned()));
//!     for name in &modifier.remove {
//!         headers.retain(|line| !named(line, name));
//!     }
//! }
//!
//! let route: wire::Route = wire::decode(
//!     br#"{"namespace": "shop", "name": "tea", "attachments": [], "rules": [{"filters": {
//!         "request": {"set": [{"name": "X-Tea", "value": "green"}], "remove": ["cookie"]}}}]}"#,
//! )?;
//! let route = Route::compile(&route)?;
//! let mut headers = vec!["Cookie: a=1".to_owned(), "x-tea: black".to_owned()];
//! apply(&route.rules()[0].filters.request, &mut headers);
//! assert_eq!(headers, ["X-Tea: green"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::wire;

/// A header as the line `Name: value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderLine {
    line: Box<str>,
    name_length: usize,
}

impl HeaderLine {
    fn new(source: &wire::Header) -> Self {
        Self {
            line: format!("{}: {}", source.name, source.value).into(),
            name_length: source.name.len(),
        }
    }

    /// `Name: value`.
    #[must_use]
    pub fn line(&self) -> &str {
        &self.line
    }

    /// The name, as the user wrote it; names are compared without case.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.line[..self.name_length]
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.line[self.name_length + 2..]
    }
}

/// Changes to headers. The caller applies them in the order set, add, remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderModifier {
    /// Each replaces every header of its name.
    pub set: Box<[HeaderLine]>,
    /// Each is added to those of its name.
    pub add: Box<[HeaderLine]>,
    /// Every header of these names is removed.
    pub remove: Box<[Box<str>]>,
}

impl HeaderModifier {
    fn new(source: &wire::HeaderModifier) -> Self {
        Self {
            set: source.set.iter().map(HeaderLine::new).collect(),
            add: source.add.iter().map(HeaderLine::new).collect(),
            remove: source.remove.iter().map(|name| name.as_str().into()).collect(),
        }
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.add.is_empty() && self.remove.is_empty()
    }
}

/// The compiled filters of a rule or of a backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// Changes to the headers of the request.
    pub request: HeaderModifier,
    /// Changes to the headers of the response.
    pub response: HeaderModifier,
    /// Changes to Host and path of the request; see [`rewrite`](crate::rewrite).
    pub rewrite: Option<wire::Rewrite>,
}

impl Filters {
    pub(crate) fn new(source: Option<&wire::Filters>) -> Self {
        let Some(source) = source else { return Self::default() };
        Self {
            request: source.request.as_ref().map(HeaderModifier::new).unwrap_or_default(),
            response: source.response.as_ref().map(HeaderModifier::new).unwrap_or_default(),
            rewrite: source.rewrite.clone(),
        }
    }
}
