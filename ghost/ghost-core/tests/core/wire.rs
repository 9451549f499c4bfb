use ghost_core::wire::{decode, decode_config, Config, Manifest, Routing};

fn error(json: &str) -> String {
    decode::<Routing>(json.as_bytes()).unwrap_err().to_string()
}

#[test]
fn absent_fields_have_their_defaults() {
    let json = r#"{"version": 2, "listeners": [{"name": "web", "socket": "http-80"}],
        "routes": [{"namespace": "ns", "name": "r", "attachments": [{"listener": "web"}],
                    "rules": [{"backends": [{"service": "ns/a", "port": 80}], "redirect": {}}]}]}"#;
    let routing: Routing = decode(json.as_bytes()).unwrap();
    assert_eq!((routing.shard, routing.shards), (0, 1));
    assert_eq!(routing.listeners[0].hostname, "*");
    let route = &routing.routes[0];
    assert_eq!(route.attachments[0].hostnames, ["*"]);
    let rule = &route.rules[0];
    assert_eq!((rule.matches.len(), rule.matches[0].path.value.as_str()), (1, "/"));
    assert_eq!((rule.backends[0].weight, rule.backends[0].port_name.as_str()), (1, ""));
    assert_eq!(rule.redirect.as_ref().unwrap().status, 302);
}

#[test]
fn decode_error_names_the_field() {
    let route = |rest: &str| {
        format!(
            r#"{{"version": 2, "routes": [{{"namespace": "a", "name": "b", "attachments": [], {rest}}}]}}"#
        )
    };
    let cases = [
        (
            route(r#""rules": [{"backends": [{"weight": -1}]}]"#),
            "routes[0].rules[0].backends[0].weight: ",
        ),
        (route(r#""rules": [{"mirror": 1}]"#), "routes[0].rules[0].mirror: unknown field `mirror`"),
        (
            route(r#""rules": [{"redirect": {"status": 200}}]"#),
            "routes[0].rules[0].redirect.status: 200 is not one of",
        ),
        (
            route(r#""rules": [{"matches": [{"path": {"type": "glob", "value": "/"}}]}]"#),
            "routes[0].rules[0].matches[0].path.type: ",
        ),
        (route(r#""rule": []"#), "routes[0].rule: unknown field"),
        (r#"{"version": 1}"#.into(), "version: 1 is not one of [2]"),
        ("{}".into(), "missing field `version`"),
        (r#"{"version": 2} x"#.into(), "trailing characters"),
        (r#"{"version": 2"#.into(), "EOF"),
        (String::new(), "EOF"),
        (
            r#"{"version": 2, "routes": [{"namespace": "a"}]}"#.into(),
            "routes[0]: missing field `name`",
        ),
    ];
    for (json, expected) in cases {
        assert!(error(&json).contains(expected), "{json}: {}", error(&json));
    }
}

#[test]
fn encoded_manifest_decodes_to_itself() {
    let json = r#"{"version": 2, "id": "x", "routing": ["a.json"], "endpoints": ["b.json"]}"#;
    let manifest: Manifest = decode(json.as_bytes()).unwrap();
    let again = serde_json::to_vec(&manifest).unwrap();
    assert_eq!(decode::<Manifest>(&again).unwrap(), manifest);
}

#[test]
fn config_of_unknown_version_is_rejected() {
    assert!(matches!(decode_config(br#"{"version": 2, "id": "x"}"#), Ok(Config::Manifest(_))));
    assert!(matches!(decode_config(br#"{"version": 1}"#), Ok(Config::V1(_))));
    let error = decode_config(br#"{"version": 3}"#).unwrap_err();
    assert_eq!(error.to_string(), "version: version 3 is not known, expected 1 or 2");
    assert!(decode_config(b"[]").is_err());
    assert!(decode_config(br#"{"version": 2, "vhosts": {}}"#).is_err());
}

mod version_1 {
    use super::*;
    use crate::support::{get, router, rule};

    const CONFIG: &str = r#"{
        "version": 1,
        "vhosts": {
            "api.example.com": {"backends": [
                {"address": "10.0.0.1", "port": 8080, "weight": 100},
                {"address": "10.0.0.2", "port": 8080, "weight": 50}]},
            "*.staging.Example.com": {"backends": [{"address": "10.0.2.1", "port": 8080}]},
            "empty.example.com": {"backends": []}
        },
        "default": {"backends": [{"address": "10.0.99.1", "port": 80, "weight": 100}]}
    }"#;

    fn upgraded() -> (Routing, ghost_core::wire::Endpoints) {
        match decode_config(CONFIG.as_bytes()).unwrap() {
            Config::V1(config) => config.upgrade(),
            Config::Manifest(_) => panic!("version 1 expected"),
        }
    }

    #[test]
    fn vhosts_upgrade_to_routes_on_every_socket() {
        let (routing, _) = upgraded();
        let router = router(&routing.listeners, &routing.routes);
        let cases = [
            ("api.example.com", "vhosts/api.example.com/0"),
            ("a.b.staging.example.com", "vhosts/*.staging.example.com/0"),
            ("staging.example.com", "vhosts/*/0"),
            ("", "vhosts/*/0"),
        ];
        for (host, expected) in cases {
            assert_eq!(rule(&router, &get(host, "/x").with_socket("any")), expected);
        }
    }

    #[test]
    fn addresses_upgrade_to_pools_with_their_weights() {
        let (routing, endpoints) = upgraded();
        let pools: Vec<_> = endpoints.pools.keys().map(String::as_str).collect();
        assert_eq!(pools, ["10.0.0.1:8080", "10.0.0.2:8080", "10.0.2.1:8080", "10.0.99.1:80"]);
        let api = routing.routes.iter().find(|route| route.name == "api.example.com").unwrap();
        let weights: Vec<_> = api.rules[0].backends.iter().map(|backend| backend.weight).collect();
        assert_eq!(weights, [100, 50]);
    }

    #[test]
    fn vhost_without_backends_responds_with_503() {
        let (routing, _) = upgraded();
        let empty = routing.routes.iter().find(|route| route.name == "empty.example.com").unwrap();
        assert_eq!(empty.rules[0].status, Some(503));
    }
}
