"""Values of environment variables.

Each function reads one variable and has a default. A value that can't be used raises BadSettings,
which names the variable and what to write instead.
"""

from collections.abc import Mapping
from typing import NamedTuple

from varnish_gateway import errors

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}

Environment = Mapping[str, str]


class Address(NamedTuple):
    """Where an HTTP server listens; an empty host means all addresses."""

    host: str
    port: int


def address(environment: Environment, variable: str, default: str) -> Address:
    value = environment.get(variable) or default
    host, colon, port = value.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise errors.BadSettings(f"{variable}: {value!r} is not an address; write host:port or :port, e.g. {default}")
    return Address(host.strip("[]"), int(port))


def flag(environment: Environment, variable: str, *, default: bool) -> bool:
    value = environment.get(variable)
    if not value:
        return default
    if value.lower() not in _FLAGS:
        raise errors.BadSettings(f"{variable}: {value!r} is neither true nor false; write one of them")
    return _FLAGS[value.lower()]


def log_level(environment: Environment, variable: str = "LOG_LEVEL") -> str:
    value = environment.get(variable) or "info"
    level = {"WARN": "WARNING"}.get(value.upper(), value.upper())
    if level not in LOG_LEVELS:
        raise errors.BadSettings(f"{variable}: {value!r} is not a level; write debug, info, warning or error")
    return level


def words(environment: Environment, variable: str, default: str = "", *, separator: str = ",") -> tuple[str, ...]:
    """Return the parts of a list, without blanks around them."""
    value = environment.get(variable) or default
    return tuple(word.strip() for word in value.split(separator) if word.strip())


def seconds(environment: Environment, variable: str, default: float) -> float:
    value = environment.get(variable) or str(default)
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < 86400:
        raise errors.BadSettings(f"{variable}: {value!r} is not a number of seconds; write e.g. {default:g}")
    return number
