"""Options that several commands have."""

import pytest

from varnish_gateway.cli.main import main
from varnish_gateway.cli.options import address
from varnish_gateway.runtime.environment import Address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:8081", Address("127.0.0.1", 8081)),
        (":8081", Address("", 8081)),
        ("[::1]:0", Address("::1", 0)),
    ],
)
def test_address_is_parsed(text, expected):
    assert address(text) == expected


@pytest.mark.parametrize("text", ["8081", "localhost", "localhost:", "localhost:http", "localhost:65536"])
def test_invalid_address_is_a_usage_error(text, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["run", "--health-addr", text, "conf"])
    assert ended.value.code == 2
    assert f"argument --health-addr: {text!r} is not of the form host:port or :port" in capsys.readouterr().err
