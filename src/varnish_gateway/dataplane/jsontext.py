"""JSON that others wrote.

In:   its bytes, and the type that it ought to have.
Out:  a value of that type, or BadDocument that says where it came from and what is wrong. Pure.
"""

from typing import TypeVar

import msgspec

from varnish_gateway import errors

T = TypeVar("T")


def read_json(content: bytes | str, wanted: type[T], source: str) -> T:
    """Decode content; bytes that are no UTF-8 and nesting without end are bad documents as well."""
    try:
        return msgspec.json.decode(content, type=wanted)
    except (ValueError, RecursionError) as error:  # a DecodeError is a ValueError
        raise errors.BadDocument(f"{source}: {error}") from error
