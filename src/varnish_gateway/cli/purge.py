"""``vgw purge``: remove responses from the cache of a running gateway."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any

from varnish_gateway.cli.health_address import add_health_address, not_a_gateway, post, token_of
from varnish_gateway.cli.options import Commands
from varnish_gateway.errors import BadSettings

if TYPE_CHECKING:
    pass

_DESCRIPTION = """\
Remove responses from the cache of a running gateway, by what clients request: every variant goes,
whatever the policy has in its key. The command ends when the gateway has confirmed, and prints how
many objects each target hit. To hit none is no error: nothing was stored then.

Objects are removed by default, because who purges mostly wants that no client gets the old content
again. With --soft they become stale: a client may get them once more while the gateway fetches new
ones (staleWhileRevalidate, grace), or if the origin fails (staleIfError). Prefer that for large
purges: the origin isn't asked for everything at once.

The gateway has to know the token: `vgw run --invalidation-tokens`, or INVALIDATION_TOKENS_FILE of
`vgw chaperone`. In a cluster each pod has a cache of its own: name the Gateway, and the address of
the operator, which purges every pod and confirms for all of them. The tokens are those of the Secret
that the Gateway's annotation gateway.varnish-software.com/invalidation-tokens names.
"""

_EXAMPLES = """\
examples:
  vgw purge --token-file token https://tea.example/list?page=2
  vgw purge --token-file token --prefix https://tea.example/li --soft
  vgw purge --token-file token --matching tea.example '^/v1/.*'
  vgw purge --token-file token --tag product-17 --tag front
  vgw purge --token-file token --route default/tea --address 127.0.0.1:9081
  vgw purge --token-file token --tag front --gateway shop/web \
    --address varnish-gateway-operator-invalidation.varnish-gateway-system:80
"""


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
    add_health_address(command, required=True)
    command.add_argument(
        "--gateway",
        type=_gateway,
        metavar="NAMESPACE/NAME",
        help="a Gateway in a cluster: purge all of its pods, at the operator's --address",
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
    """Print how many objects each target hit; raise NotConfirmed where the gateway does not."""
    targets = list(_targets(arguments))
    if not targets:
        raise BadSettings("nothing to purge: write a URL, or one of the options that vgw purge --help lists")
    document = {"mode": "soft" if arguments.soft else "hard", "targets": [target for _, target in targets]}
    page = "invalidate" if arguments.gateway is None else f"gateways/{arguments.gateway}/invalidate"
    answer = post(arguments.address, token_of(arguments.token_file), page, document)
    try:
        lines = _lines([label for label, _ in targets], answer)
    except (ValueError, KeyError, TypeError):
        raise not_a_gateway(arguments.address, page) from None
    print("\n".join(lines))
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


def _gateway(text: str) -> str:
    """Return a Gateway's name as a part of a path."""
    namespace, slash, name = text.partition("/")
    if not slash or not re.fullmatch("[-a-z0-9]+", namespace) or not re.fullmatch("[-.a-z0-9]+", name):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form namespace/name")
    return text


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


def _lines(labels: list[str], content: dict[str, Any]) -> list[str]:
    """Return the counts of targets and pods; raise ValueError, KeyError or TypeError if the answer is another one."""
    targets = [f"{int(count):>8}  {label}" for label, count in zip(labels, content["objects"], strict=True)]
    return [*targets, *map(_pod_line, content.get("pods", ()))]


def _pod_line(pod: dict[str, Any]) -> str:
    what = f"{pod['result']}: {pod['message']}" if "message" in pod else pod["result"]
    return f"{int(pod.get('objects', 0)):>8}  in pod {pod['name']}, {what}"
