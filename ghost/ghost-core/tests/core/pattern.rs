use ghost_core::{validate_regex, Pattern};

fn matches(pattern: &str, value: &[u8]) -> bool {
    Pattern::new(pattern).unwrap().matches(value)
}

#[test]
fn a_pattern_matches_the_whole_value() {
    assert!(matches("/a/[0-9]+", b"/a/12"));
    assert!(!matches("/a/[0-9]+", b"/a/12/"));
    assert!(!matches("/a/[0-9]+", b"x/a/12"));
    assert!(matches("a|ab", b"ab"));
    assert!(!matches("a|b", b"ab"));
    assert!(!matches("(?m)a$", b"a\nb"));
    assert!(matches("^a$", b"a"));
    assert!(matches("", b""));
    assert!(matches("(?x) a b # with a comment", b"ab"));
}

#[test]
fn values_are_bytes_and_classes_are_ascii() {
    assert!(matches(".*", b"caf\xe9"));
    assert!(!matches(r"\d", "\u{0663}".as_bytes()));
    assert!(matches(r"(?u)\p{L}+", "café".as_bytes()));
    assert!(matches("café", "café".as_bytes()));
    assert!(matches("(?i)/API", b"/api"));
}

#[test]
fn the_literal_prefix_is_what_every_match_begins_with() {
    let cases = [
        ("/api/v[0-9]/x", "/api/v"),
        ("/api|/app", "/ap"),
        ("(?i)/api", "/"),
        (".*", ""),
        ("/a?b", "/"),
        ("^/a/b$", "/a/b"),
        ("", ""),
    ];
    for (pattern, prefix) in cases {
        let compiled = Pattern::new(pattern).unwrap();
        assert_eq!(compiled.literal_prefix(), prefix.as_bytes(), "{pattern}");
    }
}

#[test]
fn a_refusal_says_what_and_where() {
    let refused = |pattern| validate_regex(pattern).unwrap_err().to_string();
    assert_eq!(
        refused("/a(b"),
        r#""/a(b" is not a regular expression: unclosed group (at byte 2)"#
    );
    assert!(refused("a)|(b").contains("unopened group"));
    assert!(refused(r"(a)\1").contains("backreferences are not supported"));
    assert!(refused("(?=a)").contains("look-ahead"));
    assert!(refused("(a{1000}){1000}").contains("too large"));
    assert!(!refused("(\n").contains('\n') || refused("(").lines().count() == 1);
}

#[test]
fn a_pattern_takes_linear_time() {
    assert!(!matches("(a+)+b", "a".repeat(100_000).as_bytes()));
}
