//! Cache-Control and the fields beside it.

use std::time::Duration;

use ghost_core::cache::directives::{effective, withheld_fields, Source};
use ghost_core::cache::{RequestDirectives, ResponseDirectives, Restriction, Seconds};

use super::support::lines;

#[allow(clippy::unnecessary_wraps)] // as the fields that it is compared with
fn seconds(count: u64) -> Option<Seconds> {
    Some(Seconds::Valid(Duration::from_secs(count)))
}

fn max_age(line: &str) -> Option<Seconds> {
    ResponseDirectives::parse(line.as_bytes()).max_age
}

#[test]
fn lifetimes_are_read_in_both_forms_and_in_any_case() {
    assert_eq!(max_age("max-age=60"), seconds(60));
    assert_eq!(max_age("MAX-Age=060"), seconds(60));
    assert_eq!(max_age("max-age=\"60\""), seconds(60));
    assert_eq!(max_age("x=\"max-age=1\", max-age=60"), seconds(60));
    assert_eq!(max_age("max-age=60;x"), Some(Seconds::Invalid));
    assert_eq!(max_age("a, , ,max-age=60 ,"), seconds(60));
    assert_eq!(max_age("max-age=99999999999999999999"), seconds(1 << 31));
    assert_eq!(max_age("x-max-age=1"), None);
}

#[test]
fn unreadable_lifetime_is_invalid_and_not_absent() {
    for line in [
        "max-age",
        "max-age=",
        "max-age=-1",
        "max-age=1.5",
        "max-age='60'",
        "max-age= 60",
        "max-age =60",
        "max-age=6 0",
        "max-age=\"6",
        "max-age=0x3c",
    ] {
        assert_eq!(max_age(line), Some(Seconds::Invalid), "{line}");
    }
}

#[test]
fn first_of_contradictory_directives_counts() {
    assert_eq!(max_age("max-age=1, max-age=60"), seconds(1));
    assert_eq!(max_age("max-age=x, max-age=60"), Some(Seconds::Invalid));
    let repeated = lines(&["Cache-Control: max-age=1", "Cache-Control: max-age=60, no-store"]);
    let directives = ResponseDirectives::of(&repeated);
    assert_eq!((directives.max_age, directives.no_store), (seconds(1), true));
}

#[test]
fn names_that_cannot_be_read_restrict_the_whole_response() {
    let private = |line: &str| ResponseDirectives::parse(line.as_bytes()).private;
    assert_eq!(private("private=\"Set-Cookie, X\""), Restriction::Fields);
    assert_eq!(private("private=Set-Cookie"), Restriction::Fields);
    for line in [
        "private",
        "private=",
        "private=\"\"",
        "private=\"a b\"",
        "private=\"a",
        "private =\"a\"",
        "private=\"a\", private",
    ] {
        assert_eq!(private(line), Restriction::Whole, "{line}");
    }
    assert_eq!(private("x-private"), Restriction::None);
}

#[test]
fn unclosed_quote_hides_no_restriction_and_states_no_lifetime() {
    let directives = ResponseDirectives::parse(b"x=\"a, no-store, s-maxage=60");
    assert!(directives.no_store && directives.malformed);
}

#[test]
fn withheld_fields_are_those_that_directives_name() {
    let response = lines(&["Cache-Control: private=\"A, b\", no-cache=c, max-age=\"9\", no-cache"]);
    let names: Vec<_> = withheld_fields(&response).collect();
    assert_eq!(names, [b"A", b"b", b"c"]);
}

#[test]
fn cdn_cache_control_replaces_cache_control_only_if_it_is_well_formed() {
    let of = |cdn: &str| {
        let line = format!("CDN-Cache-Control: {cdn}");
        let (directives, source) = effective(&lines(&["Cache-Control: max-age=1", &line]));
        (directives.max_age, source)
    };
    assert_eq!(of("max-age=60"), (seconds(60), Source::CdnCacheControl));
    assert_eq!(of("max-age=1, max-age=60;x"), (seconds(60), Source::CdnCacheControl));
    assert_eq!(of("max-age=\"60\""), (Some(Seconds::Invalid), Source::CdnCacheControl));
    assert_eq!(of("max-age=1.5"), (Some(Seconds::Invalid), Source::CdnCacheControl));
    assert_eq!(of("no-store"), (None, Source::CdnCacheControl));
    for malformed in ["", "Max-Age=60", "max-age=60,", "max-age= 60", "max-age=60 no-store"] {
        assert_eq!(of(malformed), (seconds(1), Source::CacheControl), "{malformed}");
    }
}

#[test]
fn false_of_a_structured_field_is_no_directive() {
    let (directives, _) =
        effective(&lines(&["CDN-Cache-Control: no-store=?0, private=?0, public"]));
    assert!(!directives.no_store && directives.public);
    assert_eq!(directives.private, Restriction::None);
    let (directives, _) = effective(&lines(&["CDN-Cache-Control: no-store=1, private=\"X\""]));
    assert!(directives.no_store);
    assert_eq!(directives.private, Restriction::Fields);
}

#[test]
fn surrogate_control_counts_if_it_speaks_of_storing() {
    let of = |surrogate: &str| {
        let line = format!("Surrogate-Control: {surrogate}");
        effective(&lines(&["Cache-Control: max-age=1", &line]))
    };
    let (directives, source) = of("max-age=60+30, content=\"ESI/1.0\"");
    assert_eq!((directives.max_age, source), (seconds(60), Source::SurrogateControl));
    assert_eq!(directives.stale_while_revalidate, seconds(30));
    assert!(of("no-store").0.no_store);
    assert_eq!(of("content=\"ESI/1.0\"").1, Source::CacheControl);
    assert_eq!(of("max-age=x").0.max_age, Some(Seconds::Invalid));
}

#[test]
fn pragma_counts_only_without_cache_control() {
    let no_cache = |request: &[&str]| RequestDirectives::parse(&lines(request)).no_cache;
    assert!(no_cache(&["Pragma: x, No-Cache"]));
    assert!(!no_cache(&["Pragma: no-cache", "Cache-Control: max-age=5"]));
    assert!(!no_cache(&["Pragma: no-cached"]));
}

#[test]
fn directives_of_requests_are_read() {
    let asked = RequestDirectives::parse(&lines(&[
        "Cache-Control: only-if-cached, no-store, min-fresh=5, max-stale=x",
        "Cache-Control: max-age=\"7\"",
    ]));
    assert!(asked.only_if_cached && asked.no_store && !asked.no_cache);
    assert_eq!((asked.min_fresh, asked.max_age), (seconds(5), seconds(7)));
    assert_eq!(asked.max_stale, Some(Some(Seconds::Invalid)));
}
