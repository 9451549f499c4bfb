//! Comparison of the fields that a response varies by.

use ghost_core::cache::vary::{prefers_language, same_meaning};
use proptest::prelude::*;

fn same(name: &str, one: &str, other: &str) -> bool {
    same_meaning(name, Some(one.as_bytes()), Some(other.as_bytes()))
}

#[test]
fn negotiation_is_compared_by_meaning() {
    assert!(same("accept-encoding", "gzip, br", " BR,gzip;q=1"));
    assert!(same("Accept-Language", "de-DE, en;q=0.50", "en;q=0.5,DE-de"));
    assert!(same("Accept", "text/html;level=1, */*;q=0.1", "*/*;q=0.100,text/html;level=1"));
    assert!(!same("accept-encoding", "gzip, br", "gzip"));
    assert!(!same("accept-encoding", "gzip, gzip, br", "gzip, br, br"));
    assert!(!same("accept-encoding", "gzip;q=0", "gzip"));
    assert!(!same("Accept", "text/html;level=1", "text/html;level=2"));
    assert!(!same("Accept", "text/html;q=2", "text/html;q=1"));
}

#[test]
fn other_fields_are_compared_byte_for_byte() {
    assert!(same("User-Agent", " x y ", "x y"));
    assert!(!same("User-Agent", "x, y", "y, x"));
    assert!(!same("Origin", "https://A", "https://a"));
    assert!(same_meaning("x", None, None) && !same_meaning("x", None, Some(b"")));
}

#[test]
fn language_that_is_preferred_most_fits() {
    assert!(prefers_language(b"fr;q=0.9, de;q=0.1", b" FR "));
    assert!(!prefers_language(b"fr;q=0", b"fr"));
    assert!(!prefers_language(b"fr-CA, fr;q=0.5", b"fr"));
    assert!(!prefers_language(b"", b"fr") && !prefers_language(b"fr", b""));
}

proptest! {
    #[test]
    fn order_case_and_whitespace_are_irrelevant(names in prop::collection::vec("[a-z]{1,3}(;q=0\\.[0-9])?", 1..10), at in any::<prop::sample::Index>()) {
        let mut shuffled: Vec<_> = names.iter().map(|name| name.replace(';', " ; ").to_uppercase()).collect();
        let length = shuffled.len();
        shuffled.rotate_left(at.index(length));
        prop_assert!(same("accept-language", &names.join(","), &shuffled.join(" , ")));
    }

    #[test]
    fn comparison_is_symmetric(one in "[ab;q=01., ]{0,12}", other in "[ab;q=01., ]{0,12}") {
        prop_assert_eq!(same("accept", &one, &other), same("accept", &other, &one));
        prop_assert!(same("accept", &one, &one));
    }
}

#[test]
fn long_values_are_compared_byte_for_byte() {
    let long = |weight| format!("{},{}", "x".repeat(600), weight);
    assert!(same("accept", &long("a;q=1"), &long("a;q=1")));
    assert!(!same("accept", &long("a;q=1"), &long("a")));
}
