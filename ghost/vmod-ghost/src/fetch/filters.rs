//! Filters on a request and its response.

use ghost_core::wire::Rewrite;
use ghost_core::{rewrite, target, Filters, HeaderModifier};

use crate::config::Target;
use crate::varnish::{Http, OutOfWorkspace};

/// Apply the rule's filters, then those of the backend. A path is rewritten once, from what
/// the client sent: a backend's own rewrite replaces the rule's.
pub fn change_request(
    bereq: &mut Http<'_>,
    target: &Target,
    backend: Option<&Filters>,
) -> Result<(), OutOfWorkspace> {
    edit(bereq, &target.rule.filters.request)?;
    if let Some(filters) = backend {
        edit(bereq, &filters.request)?;
    }
    let of_rule = target.rule.filters.rewrite.as_ref();
    let of_backend = backend.and_then(|filters| filters.rewrite.as_ref());
    let pick = |part: fn(&Rewrite) -> bool| {
        of_backend.filter(|one| part(one)).or(of_rule.filter(|one| part(one)))
    };
    if let Some(path) = pick(|one| one.path.is_some()).and_then(|one| one.path.as_ref()) {
        let (before, query) = target::split(bereq.url());
        let after = rewrite::path(path, target.matched(), before);
        bereq.set_url(&target::join(after, query))?;
    }
    if let Some(name) = pick(|one| one.hostname.is_some()).and_then(|one| one.hostname.as_ref()) {
        bereq.set("Host", name.as_bytes())?;
    }
    Ok(())
}

/// Edit headers.
pub fn edit(http: &mut Http<'_>, edits: &HeaderModifier) -> Result<(), OutOfWorkspace> {
    for header in &edits.set {
        http.remove(header.name().as_bytes());
        http.append(&[header.line().as_bytes()])?;
    }
    for header in &edits.add {
        http.append(&[header.line().as_bytes()])?;
    }
    for name in &edits.remove {
        http.remove(name.as_bytes());
    }
    Ok(())
}
