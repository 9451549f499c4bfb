mod forwarding;
mod host;
mod target;

use ghost_core::{OwnedRequest, Request, RequestError};

#[test]
fn malformed_host_or_target_is_named() {
    let error = |host, target| OwnedRequest::new("GET", host, target).unwrap_err();
    assert_eq!(error("a b", "/"), RequestError::Host("a b".into()));
    assert_eq!(error("a b", "/").to_string(), r#"the host "a b" is malformed"#);
    assert_eq!(error("a", "b"), RequestError::Target("b".into()));
    assert_eq!(error("a", "b").to_string(), r#"the target "b" is malformed"#);
}

#[test]
fn target_splits_into_path_and_query() {
    let cases = [
        ("/a", "/a", None),
        ("/a?", "/a", Some("")),
        ("/a?b?c", "/a", Some("b?c")),
        ("/x/../a?b", "/a", Some("b")),
    ];
    for (target, path, query) in cases {
        let request = OwnedRequest::new("GET", "h", target).unwrap();
        assert_eq!(request.path(), path.as_bytes(), "{target}");
        assert_eq!(request.query(), query.map(str::as_bytes), "{target}");
    }
}
