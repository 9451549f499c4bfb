import asyncio

import pytest

from varnish_gateway.dataplane.varnish.cli.protocol import (
    CliError,
    ban_words,
    challenge_response,
    escape,
    read_answer,
    request_line,
)


@pytest.mark.parametrize(
    ("word", "escaped"),
    [
        ("vgw-1", "vgw-1"),
        ("/a/b.vcl", "/a/b.vcl"),
        ("a b", "a\\x20b"),
        ('say "hi"\\', "say\\x20\\x22hi\\x22\\x5c"),
        ("two\nlines", "two\\x0alines"),
        ("ü", "\\xc3\\xbc"),
        ("#", "\\x23"),
        ("", '""'),
    ],
)
def test_any_word_is_one_argument(word, escaped):
    assert escape(word) == escaped


def test_a_request_is_one_line():
    assert request_line("vcl.inline", "a", "vcl 4.1;\n") == b"vcl.inline a vcl\\x204.1;\\x0a\n"


def test_the_challenge_is_answered_with_the_secret_between_two_challenges():
    # The example of the varnish-cli manual page.
    text = "ixslvvxrgkjptxmcgnnsdxsvdmvfympg\n\nAuthentication required.\n"
    assert challenge_response(text, b"foo\n") == "455ce847f0073c7ab3b1465f74507b75d3dc064c1e7de3b71e00de9092fdc89a"


def test_ban_values_hold_no_white_space():
    assert ban_words([("req.url", "~", "^/a b"), ("obj.status", "==", "404")]) == [
        *("req.url", "~", "^/a\\x20b"),
        *("&&", "obj.status", "==", "404"),
    ]
    with pytest.raises(CliError, match="use ~"):
        ban_words([("req.url", "==", "a b")])


async def test_an_answer_is_read_by_its_length():
    reader = asyncio.StreamReader()
    reader.feed_data(b"200 5       \nab\ncd\n107 0       \n\n")
    assert await read_answer(reader) == (200, "ab\ncd")
    assert await read_answer(reader) == (107, "")


async def test_something_else_on_the_port_is_an_error():
    reader = asyncio.StreamReader()
    reader.feed_data(b"GET / HTTP/1.1\r\n")
    with pytest.raises(ValueError, match=r"unpack|invalid"):
        await read_answer(reader)
