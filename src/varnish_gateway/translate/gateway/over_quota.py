"""Which ListenerSets exceed the quotas of their Gateway: of certificates, and of listeners.

In:   a Gateway and its ListenerSets, validated, with the certificates of their listeners.
Out:  the ids of the listeners whose certificates exceed their quota, by ListenerSet, and the ListenerSets whose
      listeners exceed theirs. The Gateway's own certificates count first, then ListenerSets by precedence.
A change costs the ListenerSets of its Gateway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from varnish_gateway import api
from varnish_gateway.translate.gateway import gateways, listener_sets
from varnish_gateway.translate.gateway.listener_quota import SURPLUS_SETS, exceeding
from varnish_gateway.translate.layers import Layer
from varnish_gateway.translate.precedence import precedence
from varnish_gateway.translate.tls.quota import OVER_QUOTA, Quota

if TYPE_CHECKING:
    from collections.abc import Mapping

    from varnish_gateway.api import Key
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.options import Options


def over_quota(key: Key, options: Options, view: View) -> Mapping[Key, frozenset[str]] | None:
    """Return the listeners over quota; None where there are none."""
    if options.tls_limit is None or (gateway := view.get(gateways.VALIDATED, key)) is None:
        return None
    found = ((each, view.get(listener_sets.VALIDATED, each)) for each in view.members(api.ListenerSet, key))
    certified = [(each, validated) for each, validated in found if validated and validated.material.certificates]
    if not certified:
        return None
    quota = Quota(options.tls_limit)
    quota.charge_all(gateway.listeners, gateway.material)
    certified.sort(key=lambda item: precedence(item[1].created, item[0]))
    over = {each: quota.charge_all(one.listeners, one.material) for each, one in certified}
    return {each: ids for each, ids in over.items() if ids} or None


def surplus_sets(key: Key, options: Options, view: View) -> frozenset[Key] | None:
    """Return the ListenerSets whose listeners don't fit; None where all do."""
    if options.listeners_limit is None:
        return None
    found = ((each, view.get(listener_sets.VALIDATED, each)) for each in view.members(api.ListenerSet, key))
    sets = [(each, validated) for each, validated in found if validated and validated.listeners]
    sets.sort(key=lambda item: precedence(item[1].created, item[0]))
    return exceeding(options.listeners_limit, ((each, one.listeners) for each, one in sets)) or None


LISTENERS = Layer(table=SURPLUS_SETS, kinds=(api.Gateway.kind,), compute=surplus_sets)
CERTIFICATES = Layer(table=OVER_QUOTA, kinds=(api.Gateway.kind,), compute=over_quota)
