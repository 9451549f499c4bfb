use ghost_core::host::Malformed;
use ghost_core::Host;
use proptest::prelude::*;

fn parsed(header: &[u8]) -> String {
    let host = Host::parse(header).unwrap();
    String::from_utf8(host.to_vec()).unwrap()
}

#[test]
fn host_ignores_case_port_and_one_trailing_dot() {
    for header in
        ["www.Example.com", "WWW.example.com:8080", "www.example.com.", "www.example.com.:80"]
    {
        assert_eq!(parsed(header.as_bytes()), "www.example.com", "{header}");
    }
}

#[test]
fn ip_addresses_are_hosts() {
    assert_eq!(parsed(b"127.0.0.1:80"), "127.0.0.1");
    assert_eq!(parsed(b"[::1]"), "[::1]");
    assert_eq!(parsed(b"[2001:DB8::1]:443"), "[2001:db8::1]");
}

#[test]
fn empty_host_and_empty_port_are_allowed() {
    assert_eq!(parsed(b""), "");
    assert_eq!(parsed(b"a.b:"), "a.b");
    assert_eq!(parsed(b"under_score.example"), "under_score.example");
}

#[test]
fn invalid_host_is_malformed() {
    let long = [b'a'; 254];
    let malformed: &[&[u8]] = &[
        b".",
        b"..",
        b":80",
        b"a..b",
        b".a",
        b"a..",
        b"a b",
        b"a,b",
        b"user@host",
        b"*.example.com",
        b"a/b",
        b"a:b",
        b"a:65536",
        b"a:-1",
        b"a:+1",
        b"a:80:80",
        b"[::1",
        b"[::1]x",
        b"[::g]",
        b"[]",
        b"::1",
        b"caf\xc3\xa9",
        b"a\0b",
        b"%61",
        &long,
    ];
    for header in malformed {
        assert_eq!(Host::parse(header).unwrap_err(), Malformed, "{}", header.escape_ascii());
    }
}

#[test]
fn longest_name_fits_with_its_dot_and_port() {
    let name = format!("{}.{}", "a".repeat(126), "b".repeat(126));
    assert_eq!(parsed(format!("{name}.:65535").as_bytes()), name);
}

proptest! {
    #[test]
    fn any_bytes_are_a_host_or_malformed(header in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(host) = Host::parse(&header) {
            prop_assert_eq!(&*Host::parse(&host).unwrap(), &*host);
        }
    }

    #[test]
    fn parsing_a_host_is_idempotent(header in "\\[?[A-Za-z0-9_.:-]{0,20}\\]?(:[0-9]{0,6})?") {
        if let Ok(host) = Host::parse(header.as_bytes()) {
            prop_assert!(!host.iter().any(u8::is_ascii_uppercase));
            prop_assert_eq!(&*Host::parse(&host).unwrap(), &*host);
        }
    }
}
