"""Whether a regular expression compiles, according to the engine that will run it."""

from functools import lru_cache

from varnish_gateway._ghost import validate_regex

QUOTED = 80
"""So many characters of a pattern are quoted in a message, enough to recognise it."""


@lru_cache(maxsize=4096)
def why_invalid(pattern: str) -> str | None:
    """Return what is wrong with a pattern, or None."""
    try:
        validate_regex(pattern)
    except ValueError as error:
        why = str(error)
        return why if len(pattern) <= QUOTED else why.replace(pattern, pattern[: QUOTED - 1] + "…")
    return None
