"""``vgw explain``: which rule matches a request, and why."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from varnish_gateway.cli.complaints import print_complaints
from varnish_gateway.cli.health_address import add_health_address, token_of
from varnish_gateway.cli.options import Commands, add_paths, header
from varnish_gateway.errors import BadSettings
from varnish_gateway.runtime.terminal import Paint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from varnish_gateway.cli.live_rows import RunningGateway
    from varnish_gateway.ir import wire
    from varnish_gateway.standalone.cache_explanation import OriginResponse
    from varnish_gateway.standalone.explanation import ConsideredRule, Share, SocketExplanation, Winner

_DESCRIPTION = """\
Explain what happens to a request: the listener, route and rule that match it, why they take
precedence over others, the backends with their probabilities, what filters change, and the cache
policy in force with the key of the request. The same router serves traffic. Nothing is started, and
without --live no request is sent.

With --live it also asks a running gateway what its cache holds for the URL: each stored response
with its age, how long it is fresh and may be used stale, hits, size, tags, policy and rule. That
takes the token of an invalidation, and shows what the token may invalidate. In a cluster each pod
has a cache of its own; --address names one.

With --response or --response-status, it also says whether the cache stores that response of the
origin, for how long, and which rule of an RFC or field of the policy decides.

Scheme and port of the URL select the listener. The exit status is 1 if no rule matches, or if the
gateway itself answers with a 5xx, also to a share of the requests, or if regular expressions and
the cache policy take too many steps for the request.
"""

ENDPOINTS_SHOWN = 8
"""More endpoints of a pool than this are counted, not listed."""

_EXAMPLES = """\
examples:
  vgw explain cafe.yaml GET http://cafe.example.com:8080/tea
  vgw explain conf.d GET /tea -H 'Host: cafe.example.com' -H 'x-canary: yes'
  vgw explain cafe.yaml GET http://cafe.example.com:8080/tea --response 'Cache-Control: max-age=60'
  vgw explain cafe.yaml GET http://cafe.example.com:8080/tea --live --token-file token
"""


def add_to(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "explain",
        help="show which rule matches a request, and why",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_paths(command)
    command.add_argument("method", metavar="METHOD", help="GET, POST, …")
    command.add_argument("url", metavar="URL", help="http://host[:port]/path, or a path with a Host header")
    command.add_argument(
        "-H", "--header", action="append", default=[], type=header, metavar="'NAME: VALUE'", help="a request header"
    )
    command.add_argument(
        "--response",
        action="append",
        default=[],
        type=header,
        metavar="'NAME: VALUE'",
        help="a header of the origin's response: is it stored, and for how long?",
    )
    command.add_argument(
        "--response-status", type=int, metavar="STATUS", help="the status of the origin's response; default: 200"
    )
    command.add_argument(
        "--live", action="store_true", help="ask a running gateway what it has stored; needs --token-file"
    )
    add_health_address(command, required=False)
    command.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Print the explanation; return 1 if no rule matches, or the gateway itself answers with an error."""
    from varnish_gateway.standalone.explanation import explain
    from varnish_gateway.standalone.translation import translate_files

    translation = translate_files(arguments.paths)
    print_complaints(translation)
    serves = True
    response, running = _response(arguments), _running(arguments)
    answers = explain(translation, arguments.method, arguments.url, arguments.header, response)
    for number, answer in enumerate(answers):
        if number:
            print()
        for line in _lines(answer, Paint(sys.stdout), has_response=response is not None):
            print(line)
        found = answer.explanation
        if running is not None and found.winner is not None:
            gateway = f"{answer.socket.gateway.namespace}/{answer.socket.gateway.name}"
            for label, text in running.stored_rows(gateway, found.host, found.target):
                print(_row(Paint(sys.stdout), label, text))
        serves = serves and found.winner is not None and answer.over_budget is None and answer.own_error is None
    return 0 if serves else 1


def _running(arguments: argparse.Namespace) -> RunningGateway | None:
    from varnish_gateway.cli.live_rows import RunningGateway

    if not arguments.live:
        return None
    if arguments.token_file is None:
        raise BadSettings("--live: the gateway tells only who has a token; add --token-file")
    return RunningGateway(arguments.address, token_of(arguments.token_file))


def _response(arguments: argparse.Namespace) -> OriginResponse | None:
    from varnish_gateway.standalone.cache_explanation import OriginResponse

    if not arguments.response and arguments.response_status is None:
        return None
    status = 200 if arguments.response_status is None else arguments.response_status
    if not 100 <= status <= 599:
        raise BadSettings(f"--response-status: {status} is not a status; use 100 to 599")
    return OriginResponse(status, arguments.response)


def _lines(answer: SocketExplanation, paint: Paint, *, has_response: bool) -> Iterator[str]:
    from varnish_gateway.cli.cache_rows import cache_rows

    found = answer.explanation
    gateway, port = answer.socket.gateway, answer.socket.port
    yield _row(paint, "Gateway", f"{gateway.namespace}/{gateway.name}, port {port}")
    if found.listener is None:
        yield _row(paint, "Listener", f"none on {answer.socket.name} takes the host {found.host!r}")
        yield _row(paint, "Answer", paint("red", "404, no listener matches"))
        return
    listener = found.listener
    yield _row(paint, "Listener", f"{listener.name} (socket {answer.socket.name}, hostname {listener.hostname})")
    if found.over_budget is not None:
        yield _row(paint, "Answer", paint("red", f"{found.over_budget.status}, {found.over_budget.reason}"))
        return
    if found.winner is None:
        yield _row(paint, "Answer", paint("red", f"404, no rule matches {found.host}{found.target}"))
    else:
        yield from _winner(found.winner, answer, paint)
        if answer.cache is not None and (answer.cache.policy is not None or has_response):
            yield from (_row(paint, label, text) for label, text in cache_rows(answer.cache))
    for number, other in enumerate(found.runners_up):
        label = "Instead of" if found.winner and not number else "Considered" if not number else ""
        yield _row(paint, label, f"{_rule(other)}: {_match(other)}: {paint('yellow', other.reason)}")


def _winner(winner: Winner, answer: SocketExplanation, paint: Paint) -> Iterator[str]:
    name = f' "{winner.rule.name}"' if winner.rule.name else ""
    yield _row(paint, "Route", paint("green", f"{_rule(winner)}{name}"))
    yield _row(paint, "Because", _match(winner))
    if answer.explanation.preflight:
        yield _row(paint, "Answer", "204 from the gateway itself, to a preflight")
        yield from (_row(paint, "CORS", line) for line in _cors(winner.rule.cors))
        return
    if winner.location is not None and winner.rule.redirect is not None:
        yield _row(paint, "Answer", f"{winner.rule.redirect.status} to {winner.location}")
    elif winner.rule.status is not None:
        yield _row(paint, "Answer", _own(winner.rule.status, paint))
    for number, share in enumerate(winner.backends):
        target = f"{share.pool}: {_endpoints(share, answer, paint)}" if share.pool else _own(share.status, paint)
        yield _row(paint, "" if number else "Backends", f"{share.probability:6.1%}  {target}")
    yield from _filters(winner, paint)
    yield from (_row(paint, "CORS", line) for line in _cors(winner.rule.cors))
    yield from _timing(winner.rule, paint)


def _own(status: int | None, paint: Paint) -> str:
    text = f"{status} from the gateway itself"
    return paint("red", text) if status is not None and status >= 500 else text


def _endpoints(share: Share, answer: SocketExplanation, paint: Paint) -> str:
    """Return the addresses of a pool, and how many more there are."""
    if (status := answer.status_of(share)) is not None:
        return paint("red", f"no endpoints, {status} from the gateway itself")
    if not (pool := answer.pools.get(share.pool or "", ())):
        return f"the addresses of {answer.external(share)}"
    shown = [f"[{each.address}]:{each.port}" if ":" in each.address else f"{each.address}:{each.port}" for each in pool]
    more = len(shown) - ENDPOINTS_SHOWN
    return ", ".join(shown[:ENDPOINTS_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _timing(rule: wire.Rule, paint: Paint) -> Iterator[str]:
    if rule.timeouts is not None:
        limits = (("request", rule.timeouts.request), ("attempt", rule.timeouts.backend_request))
        given = [(what, limit) for what, limit in limits if limit is not None]
        for number, (what, limit) in enumerate(given):
            longest = _seconds(limit) if limit else "no limit"
            yield _row(paint, "" if number else "Time-outs", f"{longest} for the {what}")
    if rule.retry is not None:
        codes = ", ".join(map(str, rule.retry.codes))
        causes = (
            f"after {codes}, a broken connection or a time-out" if codes else "after a broken connection or a time-out"
        )
        limits_text = f"up to {rule.retry.attempts}, {_seconds(rule.retry.backoff)} later or more"
        yield _row(paint, "Retries", f"{limits_text}, {causes}")


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:g} s"


def _cors(cors: wire.Cors | None) -> Iterator[str]:
    if cors is None:
        return
    yield f"pages of {', '.join(cors.origins) or 'no other origin'} may read the answers"
    for what, names in (("use", cors.methods), ("send", cors.headers), ("read", cors.expose)):
        if names:
            yield f"they may {what} {', '.join(names)}"
    if cors.credentials:
        yield "with credentials"


def _filters(winner: Winner, paint: Paint) -> Iterator[str]:
    for edit in _edits(winner.rule.filters):
        yield _row(paint, "Filter", edit)
    if winner.rewritten is not None:
        yield _row(paint, "Filter", f"the backend is asked for {winner.rewritten}")
    for backend in winner.rule.backends:
        for edit in _edits(backend.filters):
            yield _row(paint, "Filter", f"for {backend.service}:{backend.port}: {edit}")


def _edits(filters: wire.Filters | None) -> Iterator[str]:
    if filters is None:
        return
    for what, edits in (("request", filters.request), ("response", filters.response)):
        if edits is not None:
            yield from (f"{what} header {each.name} is set to {each.value!r}" for each in edits.set)
            yield from (f"{what} header {each.name} gets {each.value!r} added" for each in edits.add)
            yield from (f"{what} header {name} is removed" for name in edits.remove)
    if filters.rewrite is not None and filters.rewrite.hostname is not None:
        yield f"Host becomes {filters.rewrite.hostname}"
    if filters.rewrite is not None and filters.rewrite.path is not None:
        kind = "path" if filters.rewrite.path.type == "full" else "matched prefix"
        yield f"the {kind} becomes {filters.rewrite.path.value}"


def _rule(rule: ConsideredRule) -> str:
    return f"{rule.route}, rule {rule.rule_index}, match {rule.match_index}"


def _match(rule: ConsideredRule) -> str:
    """Return what the match asks for."""
    match = rule.match
    parts = [f"host {rule.hostname}", f"path {match.path.type} {match.path.value}"]
    if match.method:
        parts.append(f"method {match.method}")
    parts += [f"header {each.name} {_compared(each)}" for each in match.headers]
    parts += [f"query parameter {each.name} {_compared(each)}" for each in match.query]
    return ", ".join(parts)


def _compared(match: wire.ValueMatch) -> str:
    return f"{'~' if match.type == 'regex' else '='} {match.value!r}"


def _row(paint: Paint, label: str, text: str) -> str:
    return f"{paint('bold', f'{label:<11}')}{text}"
