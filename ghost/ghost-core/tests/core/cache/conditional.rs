//! Conditional requests.

use ghost_core::cache::conditional::{
    allows_range, asks_for_part, evaluate, freshens, outdates, updates, Answer,
};
use ghost_core::cache::Timestamp;

use super::support::{lines, DATE_NOW, NOW};

const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

fn not_modified(request: &[&str], stored: &[&str]) -> bool {
    let received = Timestamp::from_seconds(NOW);
    evaluate(&lines(request), 200, &lines(stored), received) == Answer::NotModified
}

#[test]
fn entity_tags_are_compared_weakly_in_lists() {
    let strong = ["ETag: \"a\""];
    let weak = ["ETag: W/\"a\""];
    for list in ["\"a\"", "W/\"a\"", "\"b\", W/\"a\"", "*", "\"x,y\",\"a\""] {
        let line = format!("If-None-Match: {list}");
        assert!(not_modified(&[&line], &strong) && not_modified(&[&line], &weak), "{list}");
    }
    for list in ["\"b\"", "a", "\"A\"", "\"a", "", "\"x,\"a\",y\""] {
        assert!(!not_modified(&[&format!("If-None-Match: {list}")], &strong), "{list}");
    }
    assert!(not_modified(&["If-None-Match: \"b\"", "If-None-Match: \"a\""], &strong));
    assert!(!not_modified(&["If-None-Match: \"a\""], &[]));
    assert!(not_modified(&["If-None-Match: abc"], &["ETag: abc"]));
}

#[test]
fn dates_count_only_without_entity_tags() {
    let stored = [&format!("Last-Modified: {EARLIER}"), "ETag: \"a\""];
    let since = |date: &str| format!("If-Modified-Since: {date}");
    assert!(
        not_modified(&[&since(EARLIER)], &stored) && not_modified(&[&since(DATE_NOW)], &stored)
    );
    assert!(!not_modified(&[&since("Sun, 06 Nov 1994 08:49:35 GMT")], &stored));
    assert!(!not_modified(&[&since("today")], &stored));
    assert!(!not_modified(&[&since(DATE_NOW), "If-None-Match: \"b\""], &stored));
    assert!(!not_modified(&[&since(DATE_NOW), &since(DATE_NOW)], &stored));
}

#[test]
fn response_without_last_modified_counts_from_its_date_or_its_arrival() {
    let since = |date: &str| [format!("If-Modified-Since: {date}")];
    let asked = |date: &str, stored: &[&str]| not_modified(&[&since(date)[0]], stored);
    let dated = format!("Date: {EARLIER}");
    assert!(asked(EARLIER, &[&dated]) && !asked(EARLIER, &[]) && asked(DATE_NOW, &[]));
}

#[test]
fn only_successful_responses_become_304() {
    let request = lines(&["If-None-Match: *"]);
    let stored = lines(&["ETag: \"a\""]);
    let answer = |status| evaluate(&request, status, &stored, Timestamp::from_seconds(NOW));
    assert_eq!([200, 203, 204].map(answer), [Answer::NotModified; 3]);
    assert_eq!([206, 301, 404, 503].map(answer), [Answer::Whole; 4]);
}

#[test]
fn range_needs_a_strong_match() {
    let strong_date = [&format!("Last-Modified: {EARLIER}")[..], &format!("Date: {DATE_NOW}")];
    let weak_date = [&format!("Last-Modified: {DATE_NOW}")[..], &format!("Date: {DATE_NOW}")];
    let allows = |range: &str, stored: &[&str]| {
        allows_range(&lines(&[&format!("If-Range: {range}")]), &lines(stored))
    };
    assert!(allows("\"a\"", &["ETag: \"a\""]) && allows(EARLIER, &strong_date));
    assert!(!allows("W/\"a\"", &["ETag: W/\"a\""]) && !allows("\"a\"", &["ETag: W/\"a\""]));
    assert!(!allows("\"b\"", &["ETag: \"a\""]) && !allows(DATE_NOW, &strong_date));
    assert!(!allows(DATE_NOW, &weak_date) && !allows("x", &[]));
    assert!(allows_range(&lines(&[]), &lines(&[])));
}

#[test]
fn one_valid_range_of_a_get_request_is_served() {
    let stored = lines(&["ETag: \"a\""]);
    let asks = |range: &str| asks_for_part(b"GET", &lines(&[&format!("Range: {range}")]), &stored);
    for range in ["bytes=0-0", "bytes=7-", "bytes=-3", "BYTES=1-99999999999", "bytes=10-"] {
        assert!(asks(range), "{range}");
    }
    for range in [
        "",
        "bytes",
        "bytes=",
        "bytes=-",
        "bytes=2-1",
        "bytes=x-1",
        "bytes=1-x",
        "bytes=0-1,3-4",
        "lines=0-1",
        "bytes 0-1",
        "bytes=1",
        "bytes=-1-",
        "bytes=--1",
    ] {
        assert!(!asks(range), "{range}");
    }
    let twice = lines(&["Range: bytes=0-1", "Range: bytes=0-1"]);
    assert!(
        !asks_for_part(b"GET", &twice, &stored) && !asks_for_part(b"GET", &lines(&[]), &stored)
    );
    let conditional = |etag| lines(&["Range: bytes=0-1", etag]);
    assert!(asks_for_part(b"GET", &conditional("If-Range: \"a\""), &stored));
    assert!(!asks_for_part(b"GET", &conditional("If-Range: \"b\""), &stored));
    assert!(!asks_for_part(b"HEAD", &conditional("X: y"), &stored));
}

#[test]
fn not_modified_freshens_what_has_its_validator() {
    let freshens = |new: &[&str], old: &[&str]| freshens(&lines(new), &lines(old));
    assert!(
        freshens(&["ETag: \"a\""], &["ETag: \"a\""])
            && freshens(&["ETag: W/\"a\""], &["ETag: \"a\""])
    );
    assert!(!freshens(&["ETag: \"a\""], &["ETag: \"b\""]) && !freshens(&["ETag: \"a\""], &[]));
    // The origin now has a strong tag, so that the stored body may be an equivalent one.
    assert!(!freshens(&["ETag: \"a\""], &["ETag: W/\"a\""]));
    assert!(freshens(&["ETag: W/\"a\""], &["ETag: W/\"a\""]));
    assert!(freshens(&["Last-Modified: x"], &["Last-Modified: x", "ETag: \"a\""]));
    assert!(
        !freshens(&["Last-Modified: x"], &["Last-Modified: y"]) && freshens(&[], &["ETag: \"a\""])
    );
}

#[test]
fn fields_of_the_body_and_of_connections_are_not_updated() {
    for name in ["Content-Length", "content-encoding", "Content-Range", "Transfer-Encoding"] {
        assert!(!updates(name), "{name}");
    }
    let updated =
        ["Cache-Control", "Expires", "ETag", "Vary", "Set-Cookie", "X-Any", "Age", "Date"];
    for name in updated.into_iter().chain(["Content-Type", "Content-Language", "Content-Location"])
    {
        assert!(updates(name), "{name}");
    }
}

#[test]
fn head_outdates_a_response_that_differs() {
    let stored = ["ETag: \"a\"", "Last-Modified: x", "Content-Length: 10"];
    let outdates = |head: &[&str]| outdates(&lines(head), &lines(&stored));
    assert!(!outdates(&[]) && !outdates(&stored));
    assert!(
        outdates(&["ETag: \"b\""])
            && outdates(&["Content-Length: 11"])
            && outdates(&["Last-Modified: y"])
    );
}
