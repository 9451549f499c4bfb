"""VARNISH_LISTEN, which names every socket of varnishd."""

from varnish_gateway.emit.listen import varnish_listen
from varnish_gateway.ir.wire import Listener


def test_http_and_https_sockets_are_listed():
    listeners = [
        Listener(name="s", socket="https-443", port=443, scheme="https"),
        Listener(name="h", socket="http-80", port=80),
    ]
    assert varnish_listen(listeners) == "ghost-reload=127.0.0.1:1969,http;http-80=:80,http;https-443=:443,https"


def test_listeners_on_one_port_share_a_socket():
    listeners = [
        Listener(name="a", socket="http-80", port=80, hostname="a.example.com"),
        Listener(name="b", socket="http-80", port=80, hostname="b.example.com"),
    ]
    assert varnish_listen(listeners, reload_port=7) == "ghost-reload=127.0.0.1:7,http;http-80=:80,http"
