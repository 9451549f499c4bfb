use ghost_core::Pattern;

fn matches(pattern: &str, value: &[u8]) -> bool {
    Pattern::new(pattern).unwrap().matches(value)
}

#[test]
fn pattern_matches_the_whole_value() {
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
fn literal_prefix_is_common_to_all_matches() {
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
fn rejected_pattern_reports_what_and_where() {
    let error = |pattern| Pattern::new(pattern).unwrap_err().to_string();
    assert_eq!(error("/a(b"), r#""/a(b" is not a regular expression: unclosed group (at byte 2)"#);
    assert!(error("a)|(b").contains("unopened group"));
    assert!(error(r"(a)\1").contains("backreferences are not supported"));
    assert!(error("(?=a)").contains("look-ahead"));
    assert!(error("(a{1000}){1000}").contains("too large"));
    assert!(!error("(\n").contains('\n') || error("(").lines().count() == 1);
}

#[test]
fn matching_takes_linear_time() {
    assert!(!matches("(a+)+b", "a".repeat(100_000).as_bytes()));
}

#[test]
fn large_pattern_matches_quickly_or_is_rejected() {
    let value = "a".repeat(32 << 10);
    for pattern in [".*[a-z]{1,300}x", "(?u).*\\w{1,5}x", ".*[a-z]{1,64}(-[a-z]{1,64})*x"] {
        let pattern = Pattern::new(pattern).unwrap();
        let started = std::time::Instant::now();
        assert!(!pattern.matches(value.as_bytes()));
        assert!(pattern.matches([value.as_bytes(), b"x"].concat().as_slice()));
        // A step for each state and byte would be seconds.
        assert!(started.elapsed() < std::time::Duration::from_millis(250), "{pattern:?}");
    }
    for pattern in [".*[a-z]{1,3000}x", ".*1.{60}2", "(?u)(\\w{1,20}x){20}"] {
        assert!(Pattern::new(pattern).unwrap_err().to_string().contains("too large"), "{pattern}");
    }
}

#[test]
fn large_pattern_matches_like_a_small_one() {
    let words: Vec<_> = (0..300).map(|n| format!("word-{n}")).collect();
    let all = words.join("|");
    assert!(words.iter().all(|word| matches(&all, word.as_bytes())));
    assert!(!matches(&all, b"word-300") && !matches(&all, b"word-29x") && !matches(&all, b""));
    let [hexadecimal, any, optional] = ["[0-9a-f]{200}", "(?s-u).{100}", "(?i)(a{100})?"];
    for (length, holds) in [(199, false), (200, true), (201, false)] {
        assert_eq!(matches(hexadecimal, "f".repeat(length).as_bytes()), holds);
    }
    assert!(matches(any, &[0xff; 100]) && matches(any, &[b'\n'; 100]) && !matches(any, b""));
    assert!(matches(optional, b"") && matches(optional, &[b'A'; 100]) && !matches(optional, b"a"));
    assert!(!matches(
        &format!("(?m){}$", "a".repeat(200)),
        format!("{}\nb", "a".repeat(200)).as_bytes()
    ));
}
