"""Whether a regular expression can be compiled, asked of the engine that will run it."""

from functools import lru_cache

from varnish_gateway._ghost import validate_regex


@lru_cache(maxsize=4096)
def why_invalid(pattern: str) -> str | None:
    """Return what is wrong with a pattern, or None."""
    try:
        validate_regex(pattern)
    except ValueError as error:
        return str(error)
    return None
