//! The budget of a route.

use std::sync::Arc;

use ghost_core::budget::{Budget, ROUTE_BUDGET};
use ghost_core::{wire, Action, Pattern, Route};

/// A route with one match for each pattern of a header.
fn route(patterns: &[String]) -> wire::Route {
    let header = |pattern| wire::ValueMatch {
        name: "x".into(),
        value: pattern,
        r#type: wire::ValueMatchType::Regex,
    };
    let a_match = |pattern| wire::Match { headers: vec![header(pattern)], ..Default::default() };
    let matches = patterns.iter().cloned().map(a_match).collect();
    wire::Route {
        namespace: "n".into(),
        name: "r".into(),
        created: 0,
        attachments: Vec::new(),
        rules: vec![wire::Rule { matches, ..Default::default() }],
    }
}

fn numbered(count: usize, pattern: &str) -> Vec<String> {
    (0..count).map(|n| format!("{pattern}{n}")).collect()
}

#[test]
fn route_with_many_common_patterns_is_within_its_budget() {
    let common = [
        (128, "/api/v[0-9]+/users/[a-z-]+/"),
        (128, "(?i)bearer .+|.*x"),
        (32, "(?i).*(googlebot|bingbot|yandex|baidu).*"),
        (16, r"(.*;)?\s*session=[0-9a-f]{32}(;.*)?"),
    ];
    for (count, pattern) in common {
        Route::compile(&route(&numbered(count, pattern))).unwrap();
    }
}

#[test]
fn patterns_beyond_the_budget_are_an_error_with_figures() {
    // Many of them, long ones, large ones, ones without a table, and ones that are rejected.
    let hostile = [
        numbered(1024, "/api/v[0-9]+/users/[a-z-]+/"),
        numbered(128, &"abc[0-9]".repeat(400)),
        numbered(128, ".*[a-z]{1,300}x"),
        numbered(128, ".*a[a-z]{15}-"),
        numbered(128, r"(?u)\pL\pM*"),
    ];
    for patterns in hostile {
        let error = Route::compile(&route(&patterns)).unwrap_err();
        assert!(error.error.error.is_over_budget(), "{error}");
        assert!(
            error.to_string().contains("more than the budget of 1048576; use fewer"),
            "{error}"
        );
    }
}

#[test]
fn rejected_patterns_are_charged_and_then_no_longer_compiled() {
    let mut budget = Budget::default();
    let errors: Vec<_> =
        numbered(128, ".*1.{60}2").iter().map(|it| budget.compile(it).unwrap_err()).collect();
    assert!(errors[0].to_string().contains("too large"));
    assert!(errors[127].is_over_budget());
    assert!(budget.spent() < 3 * ROUTE_BUDGET);
}

#[test]
fn charge_depends_on_the_pattern_alone() {
    for pattern in ["/a[0-9]", ".*a[a-z]{15}-", ".*1.{60}2", "("] {
        let (first, charge) = Pattern::compile(pattern);
        let (again, same) = Pattern::compile(pattern);
        assert_eq!(charge, same, "{pattern}");
        assert_eq!(first.is_ok(), again.is_ok(), "{pattern}");
    }
}

#[test]
fn equal_patterns_are_charged_once() {
    let same = vec![".*[a-z]{1,300}y".to_owned(); 1000];
    Route::compile(&route(&same)).unwrap();
}

#[test]
fn route_over_its_budget_is_replaced_by_an_error() {
    let source = route(&numbered(1024, "/api/v[0-9]+/users/[a-z-]+/"));
    let replaced = Route::compile_or_replace(&source).unwrap();
    assert!(replaced.is_compiled_from(&source));
    let [rule] = replaced.rules() else { panic!("one rule") };
    assert!(rule.approximate && rule.action == Action::Status(500));
    assert_eq!(Arc::clone(replaced.key()), "n/r".into());
    assert!(Route::compile_or_replace(&route(&["(".to_owned()])).is_err());
}
