"""Ask a running gateway, over its health address, what takes a token."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from varnish_gateway.cli.options import address
from varnish_gateway.errors import BadSettings, NotConfirmed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from varnish_gateway.runtime.environment import Address

ANSWER_SECONDS = 40.0
"""Longer than the gateway gives ghost."""


def add_health_address(command: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the options that say where the gateway is, and who asks."""
    command.add_argument(
        "--address",
        type=address,
        default="127.0.0.1:8081",
        metavar="HOST:PORT",
        help="the gateway's health address; default: 127.0.0.1:8081",
    )
    command.add_argument(
        "--token-file", type=Path, required=required, metavar="FILE", help="a file with nothing but the token"
    )


def token_of(path: Path) -> str:
    """Return the token of a file."""
    try:
        token = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it isn't text"
        raise BadSettings(f"--token-file: can't read {path}: {reason}") from None
    if len(token.split()) != 1:
        raise BadSettings(f"--token-file: {path} holds something else than one token")
    return token


def post(where: Address, token: str, page: str, document: Mapping[str, Any]) -> Any:  # noqa: ANN401  # of outside
    """Send a document and return the answer; raise NotConfirmed. Proxies of the environment are for other hosts."""
    import http.client
    import json

    connection = http.client.HTTPConnection(where.host or "127.0.0.1", where.port, timeout=ANSWER_SECONDS)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        connection.request("POST", f"/{page}", json.dumps(document), headers)
        answer = connection.getresponse()
        content = json.loads(answer.read())
        if answer.status == 200:
            return content
        reason = f"{_named(where)} answered {answer.status}: {content['error']}"
    except OSError as error:
        reason = f"no answer from {_named(where)}: {error.strerror or error}; {_hint(page)}"
    except (http.client.HTTPException, ValueError, KeyError, TypeError):
        raise not_a_gateway(where, page) from None
    finally:
        connection.close()
    raise NotConfirmed(reason)


def not_a_gateway(where: Address, page: str) -> NotConfirmed:
    """Return the error for an answer that no gateway gives."""
    return NotConfirmed(f"{_named(where)} answers, but not as a gateway; {_hint(page)}")


def _named(where: Address) -> str:
    return f"{where.host or '127.0.0.1'}:{where.port}"


def _hint(page: str) -> str:
    return "--address is " + ("that of the operator" if "/" in page else "the gateway's health address")
