use ghost_core::{wire, MatchField, Route, RouteError};

fn error(rules: &str) -> RouteError {
    let route = format!(
        r#"{{"namespace": "shop", "name": "bad", "attachments": [], "rules": [{{}}, {rules}]}}"#
    );
    Route::compile(&wire::decode(route.as_bytes()).unwrap()).unwrap_err()
}

#[test]
fn rejected_route_names_rule_match_and_field() {
    let regex = |name: &str| format!(r#"[{{"name": "{name}", "value": "(", "type": "regex"}}]"#);
    let cases = [
        (r#""path": {"type": "regex", "value": "("}"#.to_owned(), MatchField::Path, "path"),
        (format!(r#""headers": {}"#, regex("x")), MatchField::Header("x".into()), "header x"),
        (format!(r#""query": {}"#, regex("q")), MatchField::Query("q".into()), "query parameter q"),
    ];
    for (condition, field, text) in cases {
        let error = error(&format!(r#"{{"matches": [{{}}, {{{condition}}}]}}"#));
        assert_eq!((error.route.as_str(), error.rule, error.r#match), ("shop/bad", 1, 1));
        assert_eq!(error.error.field, field);
        let start = format!("route shop/bad, rule 1, match 1: {text}: \"(\" is not a regular");
        assert!(error.to_string().starts_with(&start), "{error}");
    }
}
