"""Decode JSON from outside.

In:   its bytes, and the type that it ought to have.
Out:  a value of that type, or BadDocument that names the source and the fault. Pure.
"""

from typing import TypeVar

import msgspec

from varnish_gateway import errors

T = TypeVar("T")


def read_json(content: bytes | str, expected: type[T], source: str) -> T:
    """Decode content; bytes that are no UTF-8 and endless nesting are bad documents as well."""
    try:
        return msgspec.json.decode(content, type=expected)
    except (ValueError, RecursionError) as error:  # a DecodeError is a ValueError
        raise errors.BadDocument(f"{source}: {error}") from error
