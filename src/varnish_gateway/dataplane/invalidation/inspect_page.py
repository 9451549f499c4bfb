"""``POST /inspect``, on the health address of ``vgw chaperone`` and ``vgw run``.

In:   an Inspection as JSON, with ``Authorization: Bearer TOKEN``.
Out:  200 with what each Gateway here holds for that URI, of what the token may invalidate; or a status with the
      reason, as for an invalidation. A Gateway that doesn't answer has an error of its own: the others are shown.
"""

import msgspec
from aiohttp import web

from varnish_gateway import errors
from varnish_gateway.dataplane.invalidation.page import TokenPage, of_each
from varnish_gateway.dataplane.invalidation.requests import document
from varnish_gateway.ir.inspection import GatewayInspection, InspectionResult, Stored, read_inspection
from varnish_gateway.ir.tokens import Token, within_scope


class InspectPage(TokenPage):
    """Lists Gateways whose varnishd never served with nothing."""

    async def _answer(self, body: bytes, token: Token) -> web.Response:
        asked, caches = read_inspection(body).as_invalidation, self._holding()
        restricted = within_scope(asked, token)
        results = await of_each(caches, lambda name: caches[name].inspect(restricted))
        bad = [result for result in results.values() if isinstance(result, errors.BadDocument)]
        if bad and len(bad) == len(results):
            raise bad[0]
        gateways = tuple(_shown(name, results.get(name)) for name in sorted(self._caches()))
        return document(200, msgspec.json.encode(InspectionResult(gateways)))


def _shown(name: str, result: Stored | BaseException | None) -> GatewayInspection:
    if isinstance(result, BaseException):
        return GatewayInspection(name, error=str(result))
    return GatewayInspection(name) if result is None else GatewayInspection(name, "", result.variants, result.more)
