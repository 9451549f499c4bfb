"""The bytes of varnishd's command line protocol.

In:   words of a command, bytes of an answer, a challenge.
Out:  the line to send, the answer's status and text, the response to the challenge.

A request is one line of words. An answer is a line of exactly 13 bytes (status
and length) followed by the text and a newline.
"""

import hashlib
from asyncio import StreamReader
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from varnish_gateway import errors

HEADER_LENGTH = 13


class CliStatus(IntEnum):
    """Status codes that varnishd's command line answers with."""

    SYNTAX = 100
    UNKNOWN = 101
    UNIMPLEMENTED = 102
    TOO_FEW = 104
    TOO_MANY = 105
    PARAMETER = 106
    AUTH = 107
    OK = 200
    TRUNCATED = 201
    CANNOT = 300
    COMMUNICATION = 400
    CLOSE = 500


class CliError(errors.AdminError):
    """An answer other than success; ``status`` is varnishd's code, ``text`` its words."""

    def __init__(self, command: str, status: int, text: str) -> None:
        super().__init__(f"{command}: {text.strip() or 'no reason given'} (status {status})")
        self.command = command
        self.status = status
        self.text = text


class CliAnswer(NamedTuple):
    status: int
    text: str


_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,:;/=+*~^$@%()[]{}<>|&!?'")


def escape(word: str) -> str:
    """Return word as one argument, whatever it holds.

    By escapes and without quotes: varnishd 7.1 refuses two quoted arguments in a row.
    """
    return "".join(chr(byte) if byte in _PLAIN else f"\\x{byte:02x}" for byte in word.encode()) or '""'


def request_line(command: str, *arguments: str) -> bytes:
    """Return the line to send. A command name is a literal of ours and never needs escaping."""
    return " ".join([command, *map(escape, arguments)]).encode() + b"\n"


def ban_words(conditions: Iterable[tuple[str, str, str]]) -> list[str]:
    """Return the words of a ban of (field, operator, value) conditions, all of which must hold."""
    words: list[str] = []
    for field, operator, value in conditions:
        words += ["&&"] * bool(words) + [field, operator, _ban_value(operator, value)]
    return words


def _ban_value(operator: str, value: str) -> str:
    """Return value without white space: varnishd joins the words of a ban and splits them once more."""
    if operator in ("~", "!~"):
        return "".join(f"\\x{ord(char):02x}" if char.isspace() else char for char in value)
    if not value or any(char.isspace() for char in value):
        raise CliError("ban", CliStatus.SYNTAX, f"{value!r} can't be compared with {operator}; use ~ and a regex")
    return value


def challenge_response(challenge_text: str, secret: bytes) -> str:
    """Return what proves that we know the secret; the challenge is the text's first line."""
    challenge = challenge_text.split("\n", 1)[0].encode() + b"\n"
    return hashlib.sha256(challenge + secret + challenge).hexdigest()


async def read_answer(reader: StreamReader) -> CliAnswer:
    """Read one answer; raise ValueError if this is not varnishd's protocol."""
    header = await reader.readexactly(HEADER_LENGTH)
    status, length = header.split()
    text = await reader.readexactly(int(length) + 1)
    return CliAnswer(int(status), text[:-1].decode(errors="replace"))
