//! The Host header, the request target, and other headers.

use ghost_core::forwarding::{last_members, TrustedProxies};
use ghost_core::target::{normalise, split, split_absolute, PathRules};
use ghost_core::wire::{RejectedText, RequestRules};
use ghost_core::{cdn_loop, join_values, Host, OwnedRequest, Request};

/// A Host header: what it becomes is a host name in lower case, and stays as it is when it is
/// parsed again.
pub fn host(data: &[u8]) {
    let Ok(host) = Host::parse(data) else { return };
    assert!(host.len() <= 253);
    assert!(host.iter().all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase()));
    assert!(!host.iter().any(|byte| b"/?#@\\%,;".contains(byte)));
    assert!(host.first() == Some(&b'[') || !host.contains(&b':'));
    let again = Host::parse(&host).map(|again| again.to_vec());
    assert_eq!(again.as_deref(), Ok(&*host));
}

/// A request target: no path that is routed has dot segments, nor what the Gateway rejects.
pub fn path(data: &[u8]) {
    let Some((&choice, target)) = data.split_first() else { return };
    let texts = [
        RejectedText::EncodedSlash,
        RejectedText::EncodedBackslash,
        RejectedText::ParentWithParameter,
    ];
    let rejects = |bit: usize| choice & (1 << bit) != 0;
    let rules = RequestRules {
        merge_slashes: rejects(3),
        reject: (0..3).filter(|&bit| rejects(bit)).map(|bit| texts[bit]).collect(),
        ..RequestRules::default()
    };
    if let Some((authority, rest)) = split_absolute(target) {
        assert!(!authority.iter().any(|byte| b"/?#".contains(byte)));
        assert!(target.ends_with(rest));
    }
    let paths = PathRules::new(&rules);
    let Ok(merged) = paths.apply(target) else { return };
    let Ok(url) = normalise(&merged, b"GET") else { return };
    assert_eq!(normalise(&url, b"GET").as_deref(), Ok(&*url), "normalised once is normalised");
    assert_eq!(paths.apply(&url).as_deref(), Ok(&*url), "nothing that is rejected comes about");
    let (path, query) = split(&url);
    assert_eq!(query, split(target).1, "the query stays");
    assert!(path.starts_with(b"/") && !path.contains(&b'#'));
    assert!(!path.split(|&byte| byte == b'/').any(is_dots), "a dot segment is left");
    assert!(!rules.merge_slashes || !path.windows(2).any(|pair| pair == b"//"));
}

fn is_dots(segment: &[u8]) -> bool {
    let text = String::from_utf8_lossy(segment).to_ascii_lowercase().replace("%2e", ".");
    text == "." || text == ".."
}

/// Header values, one for each line: lists, forwarding headers, CDN-Loop, query parameters.
pub fn headers(data: &[u8]) {
    let values: Vec<&[u8]> = data.split(|&byte| byte == b'\n').collect();
    let joined = join_values(values.iter().copied()).unwrap_or_default();
    let id = b"web.shop.varnish-gateway";
    let passes = cdn_loop::passes(values.iter().copied(), id);
    assert_eq!(passes, cdn_loop::passes(std::iter::once(&*joined), id), "joined is the same");
    for count in 0..4 {
        let last = last_members(&joined, count);
        assert!(last.iter().filter(|&&byte| byte == b',').count() < count.max(1));
        assert!(joined.trim_ascii_end().ends_with(last));
    }
    believed(values[0], values.get(1).copied().unwrap_or_default());
    parameters(values[0]);
}

/// No more entries are believed than there are, but for the one that is missing.
fn believed(received: &[u8], peer: &[u8]) {
    let ranges = ["10.0.0.0/8", "::/0", "192.0.2.0/31"].map(str::to_owned).to_vec();
    let rules = RequestRules { trusted_ranges: ranges, ..RequestRules::default() };
    let Ok(proxies) = TrustedProxies::compile(&rules) else { return };
    let members =
        received.split(|&byte| byte == b',').filter(|member| !member.trim_ascii().is_empty());
    let believed = proxies.believed(received, peer);
    assert!(believed <= members.count().max(1));
}

fn parameters(query: &[u8]) {
    let target = format!("/?{}", String::from_utf8_lossy(query));
    let Ok(request) = OwnedRequest::new("GET", "a", &target) else { return };
    for name in ["a", "", "a b", "%"] {
        let value = request.parameter(name);
        assert!(value.is_none_or(|value| value.len() <= target.len()));
    }
}
