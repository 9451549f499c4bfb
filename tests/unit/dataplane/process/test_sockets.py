from pathlib import Path

import pytest

from varnish_gateway import errors
from varnish_gateway.dataplane.process.sockets import Socket, parse_http_address, parse_listen


def test_example_of_version_1():
    sockets = parse_listen("ghost-reload=127.0.0.1:1969,http;http-80=:80,http;https-443=:443,https")
    assert [socket.argument for socket in sockets.plain] == ["ghost-reload=127.0.0.1:1969,http", "http-80=:80,http"]
    assert sockets.tls == (Socket("https-443", ":443", ("https",)),)
    assert sockets.reload.port == 1969


def test_the_reload_socket_is_added_and_names_are_made():
    sockets = parse_listen(":80,http; [::1]:8080 ;/run/v.sock,PROXY,mode=666")
    assert [socket.argument for socket in sockets.plain] == [
        "ghost-reload=127.0.0.1:1969,http",
        "http-80=:80,http",
        "http-8080=[::1]:8080,http",
        "proxy-v.sock=/run/v.sock,PROXY,mode=666",
    ]


def test_an_option_may_hold_an_equals_sign():
    assert parse_listen("tls=/run/v.sock,PROXY,mode=666").plain[1].argument == "tls=/run/v.sock,PROXY,mode=666"


def test_an_http_address_is_one_socket():
    assert parse_http_address("localhost:8080").plain[1].argument == "http-8080=localhost:8080,http"


@pytest.mark.parametrize("value", ["http-80=80,http", "x=:99999,http", "x=,http", "localhost"])
def test_invalid_address_is_reported(value):
    with pytest.raises(errors.BadSettings, match=r"VARNISH_LISTEN.*name=address:port"):
        parse_listen(value)


def test_a_name_occurs_once():
    with pytest.raises(errors.BadSettings, match="a occurs twice"):
        parse_listen("a=:80;a=:81")


def test_varnishd_has_a_unix_socket_of_the_same_name_for_tls():
    sockets = parse_listen("https-443=:443,https;https-web=[::1]:8443,https")
    assert [socket.argument for socket in sockets.of_varnishd(Path("/work"), None)] == [
        "ghost-reload=127.0.0.1:1969,http",
        "https-443=/work/https-443.sock,PROXY,mode=0600",
        "https-web=/work/https-8443.sock,PROXY,mode=0600",
    ]
    assert sockets.of_varnishd(Path("/work"), "haproxy")[1].argument.endswith(",PROXY,user=haproxy,mode=0600")


def test_a_path_too_long_for_a_unix_socket_is_named():
    long = Path("/" + "x" * 90)
    assert len(parse_listen(":80").of_varnishd(long, None)) == 2
    with pytest.raises(errors.BadSettings, match=r"WORK_DIR: .* is too long"):
        parse_listen(":443,https").of_varnishd(long, None)


@pytest.mark.parametrize("value", ["/run/x.sock,https", "s=:0,https", "s=a b:1,https", "s=a'b:443,https"])
def test_tls_socket_needs_an_address_and_a_port(value):
    with pytest.raises(errors.BadSettings, match="for https; write name=address:port,https"):
        parse_listen(value)


@pytest.mark.parametrize("value", ["web=:443,https", ":443,http,https"])
def test_tls_socket_without_its_prefix_is_rejected(value):
    with pytest.raises(errors.BadSettings, match=rf"VARNISH_LISTEN: '{value}'.* write https-443=:443,https"):
        parse_listen(value)


def test_a_port_has_one_tls_socket():
    with pytest.raises(errors.BadSettings, match=r"port 443 occurs twice .* e\.g\. https-443=:443,https"):
        parse_listen("https-a=127.0.0.1:443,https;https-b=[::1]:443,https")
