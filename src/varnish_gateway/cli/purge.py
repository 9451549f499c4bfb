"""``vgw purge``: remove responses from the cache of a running gateway."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from varnish_gateway.cli.options import Commands, address
from varnish_gateway.errors import BadSettings, NotInvalidated

if TYPE_CHECKING:
    from varnish_gateway.runtime.environment import Address

_DESCRIPTION = """\
Remove responses from the cache of a running gateway, by what clients request: every variant goes,
whatever the policy has in its key. The command ends when the gateway has confirmed, and prints how
many objects each target hit. To hit none is no error: nothing was stored then.

Objects are removed by default, because who purges mostly wants that no client gets the old content
again. With --soft they become stale: a client may get them once more while the gateway fetches new
ones (staleWhileRevalidate, grace), or if the origin fails (staleIfError). Prefer that for large
purges: the origin isn't asked for everything at once.

The gateway has to know the token: `vgw run --invalidation-tokens`, or INVALIDATION_TOKENS_FILE of
`vgw chaperone`. In a cluster each pod has a cache of its own; purge every pod.
"""

_EXAMPLES = """\
examples:
  vgw purge --token-file token https://tea.example/list?page=2
  vgw purge --token-file token --prefix https://tea.example/li --soft
  vgw purge --token-file token --matching tea.example '^/v1/.*'
  vgw purge --token-file token --tag product-17 --tag front
  vgw purge --token-file token --route default/tea --address 127.0.0.1:9081
"""

ANSWER_SECONDS = 40.0
"""Longer than the gateway gives ghost."""


def add_to(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "purge",
        help="remove responses from the cache of a running gateway",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("urls", nargs="*", type=_url, metavar="URL", help="http(s)://host[:port]/path[?query]")
    _add_targets(command)
    command.add_argument("--soft", action="store_true", help="make objects stale; default: remove them")
    command.add_argument(
        "--address",
        type=address,
        default="127.0.0.1:8081",
        metavar="HOST:PORT",
        help="the gateway's health address; default: 127.0.0.1:8081",
    )
    command.add_argument(
        "--token-file", type=Path, required=True, metavar="FILE", help="a file with nothing but the token"
    )
    command.set_defaults(execute=execute)


def _add_targets(command: argparse.ArgumentParser) -> None:
    """Add the options that name what to remove; each may be repeated."""
    several: dict[str, Any] = {"action": "append", "default": []}
    command.add_argument("--prefix", type=_prefix, metavar="URL", help="every URL that begins so", **several)
    command.add_argument(
        "--matching",
        nargs=2,
        metavar=("HOST", "REGEX"),
        help="every URL of a host in whose path with query REGEX matches",
        **several,
    )
    command.add_argument("--host", metavar="HOST", help="everything of a host", **several)
    command.add_argument("--tag", metavar="TAG", help="what the origin has tagged so, as in Surrogate-Key", **several)
    command.add_argument("--route", metavar="NAMESPACE/NAME", help="everything that an HTTPRoute has stored", **several)
    command.add_argument("--everything", action="store_true", help="everything that the token is for")


def execute(arguments: argparse.Namespace) -> int:
    """Print how many objects each target hit; raise NotInvalidated where the gateway does not confirm."""
    targets = list(_targets(arguments))
    if not targets:
        raise BadSettings("nothing to purge: write a URL, or one of the options that vgw purge --help lists")
    document = {"mode": "soft" if arguments.soft else "hard", "targets": [target for _, target in targets]}
    objects = _ask(arguments.address, _token(arguments.token_file), document)
    for (label, _), count in zip(targets, objects, strict=True):
        print(f"{count:>8}  {label}")
    return 0


def _targets(arguments: argparse.Namespace) -> list[tuple[str, dict[str, Any]]]:
    """Return each target as a user wrote it, and as the gateway takes it."""
    one = arguments
    return [
        *((url, {"uri": {"host": host, "target": target}}) for url, host, target in one.urls),
        *((f"--prefix {url}", {"prefix": {"host": host, "prefix": path}}) for url, host, path in one.prefix),
        *((f"--matching {host} {text}", {"matching": {"host": host, "pattern": text}}) for host, text in one.matching),
        *((f"--host {host}", {"host": host}) for host in one.host),
        *((f"--tag {tag}", {"tags": [_percent_encoded(tag)]}) for tag in one.tag),
        *((f"--route {route}", {"route": route}) for route in one.route),
        *([("--everything", {"everything": True})] if one.everything else []),
    ]


def _url(text: str) -> tuple[str, str, str]:
    """Return a URL with its host and its path with query."""
    from urllib.parse import urlsplit

    if not text.isascii() or not text.isprintable() or " " in text:
        raise argparse.ArgumentTypeError(f"{text!r} is not as clients send it; encode it as a browser does")
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form http(s)://host[:port]/path")
    query = f"?{parts.query}" if parts.query else ""
    return text, parts.netloc.rpartition("@")[2], (parts.path or "/") + query


def _prefix(text: str) -> tuple[str, str, str]:
    """Return the beginning of a URL likewise. An empty query counts: /list? leaves out /listing."""
    _, host, target = _url(text)
    has_query = "?" in text.partition("#")[0]
    return text, host, target if not has_query or "?" in target else f"{target}?"


def _percent_encoded(tag: str) -> str:
    """Return a tag with each unusual byte as % and its number: a response may have bytes in it that are no UTF-8."""
    import os
    from urllib.parse import quote

    return quote(os.fsencode(tag))


def _token(path: Path) -> str:
    try:
        token = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it isn't text"
        raise BadSettings(f"--token-file: can't read {path}: {reason}") from None
    if len(token.split()) != 1:
        raise BadSettings(f"--token-file: {path} holds something else than one token")
    return token


def _ask(where: Address, token: str, document: dict[str, Any]) -> list[int]:
    """Send the invalidation and return the counts. Proxies of the environment are for other hosts."""
    import http.client
    import json

    connection = http.client.HTTPConnection(where.host or "127.0.0.1", where.port, timeout=ANSWER_SECONDS)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    gateway = f"{where.host or '127.0.0.1'}:{where.port}"
    try:
        connection.request("POST", "/invalidate", json.dumps(document), headers)
        answer = connection.getresponse()
        content = json.loads(answer.read())
        if answer.status == 200:
            return [int(count) for _, count in zip(document["targets"], content["objects"], strict=True)]
        reason = f"{gateway} answered {answer.status}: {content['error']}"
    except OSError as error:
        reason = f"no answer from {gateway}: {error.strerror or error}; --address is the gateway's health address"
    except (http.client.HTTPException, ValueError, KeyError, TypeError):
        reason = f"{gateway} answers, but not as a gateway; --address is the gateway's health address"
    finally:
        connection.close()
    raise NotInvalidated(reason)
