"""Precedence of the Gateway API: the oldest object wins, then the first by namespace and name."""

from varnish_gateway.api import Key
from varnish_gateway.translate.incremental.claims import Rank


def precedence(created: int, key: Key) -> Rank:
    """Return the rank of an object. The specification compares namespace and name as one text."""
    return created, f"{key.namespace}/{key.name}"
