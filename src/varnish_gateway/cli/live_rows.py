"""Lines of ``vgw explain --live``: what a running gateway has stored for the URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from varnish_gateway.cli.cache_rows import seconds
from varnish_gateway.cli.health_address import not_a_gateway, post
from varnish_gateway.ir.inspection import GatewayInspection, InspectionResult, StoredVariant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from varnish_gateway.runtime.environment import Address


class RunningGateway:
    """Asks what listens on a health address, with a token."""

    def __init__(self, where: Address, token: str) -> None:
        self._where = where
        self._token = token

    def stored_rows(self, gateway: str, host: str, target: str) -> Iterator[tuple[str, str]]:
        """Yield labels and texts; raise NotConfirmed where it doesn't answer. ``gateway`` is namespace/name."""
        answer = post(self._where, self._token, "inspect", {"host": host, "target": target})
        try:
            found = msgspec.convert(answer, InspectionResult).gateways
        except msgspec.ValidationError:
            raise not_a_gateway(self._where, "inspect") from None
        yield from _rows(next((one for one in found if one.name in ("", gateway)), None))


def _rows(found: GatewayInspection | None) -> Iterator[tuple[str, str]]:
    if found is None:
        yield "Stored", "unknown: the gateway at --address doesn't serve this Gateway"
    elif found.error:
        yield "Stored", f"unknown: {found.error}"
    elif not found.variants:
        yield "Stored", "unknown: the gateway looked for too long" if found.more else "nothing that the token is for"
    else:
        for variant in found.variants:
            yield "Stored", _headline(variant)
            yield from (("", line) for line in _details(variant))
        if found.more:
            yield "", f"and more than these {len(found.variants)}"


def _headline(variant: StoredVariant) -> str:
    of = f"of {seconds(variant.lifetime)} ({variant.reason})"
    state = f"fresh for {seconds(variant.ttl)} {of}" if variant.fresh else _stale(variant, of)
    size = "its body is arriving" if variant.size is None else f"{variant.size:,} bytes"
    return f"{state}, {seconds(variant.age)} old, {variant.hits:,} hits, {size}, status {variant.status}"


def _stale(variant: StoredVariant, of: str) -> str:
    if variant.always_revalidate:
        return f"validated before each use, lifetime {of.removeprefix('of ')}"
    return f"stale for {seconds(-variant.ttl)}, after a lifetime {of}"


def _details(variant: StoredVariant) -> Iterator[str]:
    yield f"by {variant.policy}, rule {variant.rule}"
    if variant.vary:
        yield f"varies by {variant.vary}"
    if variant.must_revalidate:
        yield "not used stale: must-revalidate"
    else:
        yield from _windows(variant)
    yield f"removed in {seconds(variant.kept)}"
    if variant.tags:
        more = f" and {variant.more_tags} more" if variant.more_tags else ""
        yield f"tags {', '.join(variant.tags)}{more}"


def _windows(variant: StoredVariant) -> Iterator[str]:
    """Yield for how long it may be used stale; the windows begin with the end of its lifetime."""
    until_stale = max(0, variant.ttl)
    then = "then " if variant.fresh else ""
    if (grace := variant.grace - until_stale) > 0:
        yield f"{then}used for {seconds(grace)} while the gateway fetches a new one"
    if (window := variant.stale_if_error - until_stale) > 0:
        yield f"{then}used for {seconds(window)} if the origin fails"
