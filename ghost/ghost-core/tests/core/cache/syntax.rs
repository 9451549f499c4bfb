//! Dates, lists and structured fields.

use ghost_core::cache::syntax::list::members;
use ghost_core::cache::syntax::structured::{dictionary, Item};
use ghost_core::cache::syntax::{date, list};
use proptest::prelude::*;

use super::support::NOW;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] =
    ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

fn is_leap(year: i64) -> bool {
    year % 400 == 0 || (year % 4 == 0 && year % 100 != 0)
}

/// The three formats of a time, counted day by day.
fn formats(seconds: i64) -> [String; 3] {
    let mut days = seconds / 86_400;
    let weekday = DAYS[usize::try_from(days % 7).unwrap()];
    let mut year = 1970;
    while days >= if is_leap(year) { 366 } else { 365 } {
        days -= if is_leap(year) { 366 } else { 365 };
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 0;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (name, day) = (MONTHS[month], days + 1);
    let rest = seconds % 86_400;
    let time = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    let short = &weekday[..3];
    [
        format!("{short}, {day:02} {name} {year} {time} GMT"),
        format!("{weekday}, {day:02}-{name}-{:02} {time} GMT", year % 100),
        format!("{short} {name} {day:2} {time} {year}"),
    ]
}

proptest! {
    #[test]
    fn each_format_of_a_date_is_the_same_time(seconds in 0_i64..2_000_000_000) {
        for text in formats(seconds) {
            // The century of two digits follows from the current time.
            for text in [text.to_ascii_lowercase(), text.to_ascii_uppercase(), text] {
                prop_assert_eq!(date::parse(text.as_bytes(), seconds), Some(seconds), "{}", text);
            }
        }
    }

    #[test]
    fn a_changed_byte_is_another_date_or_none(seconds in 0_i64..2_000_000_000, at in 0_usize..29, to in any::<u8>()) {
        let mut text = formats(seconds)[0].clone().into_bytes();
        prop_assume!(!text[at].eq_ignore_ascii_case(&to) && at > 2);
        text[at] = to;
        prop_assert_ne!(date::parse(&text, seconds), Some(seconds));
    }
}

#[test]
fn dates_that_are_almost_right_are_rejected() {
    for text in [
        "",
        "0",
        "-1",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 CET",
        "Sun, 31 Apr 1994 08:49:37 GMT",
        "Sun, 29 Feb 1993 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06 Nov 1994  08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT x",
        "Sun 06 Nov 1994 08:49:37 GMT",
        "1994-11-06T08:49:37Z",
        "784111777",
    ] {
        assert_eq!(date::parse(text.as_bytes(), NOW), None, "{text}");
    }
}

#[test]
fn year_of_two_digits_is_at_most_fifty_years_ahead() {
    let year = |now| {
        date::parse(b"Sunday, 06-Nov-44 08:49:37 GMT", now).unwrap().div_euclid(31_556_952) + 1970
    };
    assert_eq!(year(NOW), 2044);
    assert_eq!(year(NOW - 10 * 31_556_952), 1944);
}

#[test]
fn structured_fields_are_all_or_nothing() {
    for text in
        ["a=", "A", "a,", "a b", "a=1 b", "a=\"x", "a=?2", "a=1;", "1", "a=1.", "a=é", "a=(1"]
    {
        assert!(dictionary(text.as_bytes(), |_, _| {}).is_err(), "{text}");
    }
    for text in ["", "a", "a=1;x;y=\"z\", b=?0", "a=(1 2), b=:aGk=:, c=1.5", "a=@1, b=%\"x\""] {
        assert!(dictionary(text.as_bytes(), |_, _| {}).is_ok(), "{text}");
    }
    let mut last = None;
    dictionary(b"a=-5", |_, item| last = Some(item)).unwrap();
    assert_eq!(last, Some(Item::Integer(-5)));
}

#[test]
fn escaped_quote_stays_within_its_member() {
    let members: Vec<_> = list::members(br#""a\",b",c"#).map(|member| member.text).collect();
    assert_eq!(members, [&br#""a\",b""#[..], b"c"]);
}

#[test]
fn every_comma_separates_after_a_quote_that_is_never_closed() {
    let members: Vec<_> = members(br#"a="b, c="d,e", f"#).collect();
    let texts: Vec<_> = members.iter().map(|member| member.text).collect();
    assert_eq!(texts, [&br#"a="b, c="d"#[..], br#"e""#, b"f"]);
    assert_eq!(
        members.iter().map(|member| member.malformed).collect::<Vec<_>>(),
        [false, true, false]
    );
}

/// Reading it in quadratic time takes hours.
#[test]
fn line_with_open_quotes_is_read_in_linear_time() {
    let line = br#"\","#.repeat(1 << 20);
    assert_eq!(members(&line).count(), 1 << 20);
}
