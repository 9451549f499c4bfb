//! Whose address a decision follows that clients and user VCL must not influence.

use ghost_core::forwarding::TrustedProxies;
use ghost_core::wire::{self, RequestRules};

fn client(rules: &str, peer: &str, list: Option<&str>) -> Option<String> {
    let rules: RequestRules = wire::decode(rules.as_bytes()).unwrap();
    let proxies = TrustedProxies::compile(&rules).unwrap();
    let found = proxies.proven_client(peer.parse().unwrap(), list.map(str::as_bytes));
    found.map(|address| address.to_string())
}

#[test]
fn without_a_trusted_proxy_the_connection_counts_whatever_the_header_says() {
    for rules in ["{}", r#"{"trustedHops": 0}"#, r#"{"trustedRanges": ["10.2.0.0/16"]}"#] {
        for list in
            [None, Some("10.1.0.5"), Some("10.1.0.5, 192.0.2.1"), Some("192.0.2.1, 10.2.0.1")]
        {
            assert_eq!(client(rules, "192.0.2.1", list).as_deref(), Some("192.0.2.1"), "{list:?}");
        }
    }
    assert_eq!(client("{}", "::ffff:10.1.0.5", None).as_deref(), Some("10.1.0.5"));
}

#[test]
fn trusted_proxy_is_believed_only_with_its_own_address_at_the_end() {
    for rules in [r#"{"trustedHops": 1}"#, r#"{"trustedRanges": ["10.2.0.0/16"]}"#] {
        let client = |list| client(rules, "10.2.0.1", list);
        assert_eq!(client(Some("10.1.0.5, 10.2.0.1")).as_deref(), Some("10.1.0.5"), "{rules}");
        assert_eq!(client(Some("10.2.0.1")).as_deref(), Some("10.2.0.1"), "{rules}");
        for unknown in
            [None, Some(""), Some("10.1.0.5"), Some("10.2.0.1, 10.1.0.5"), Some("x, 10.2.0.1")]
        {
            assert_eq!(client(unknown), None, "{rules}: {unknown:?}");
        }
    }
}
