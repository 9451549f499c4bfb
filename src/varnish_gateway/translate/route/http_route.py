"""Translate one HTTPRoute, alone.

In:   its key and a view.
Out:  TranslatedRoute: a wire.Route for each Gateway that it attaches to, the listeners that count it,
      and its status. None where no Gateway of ours, nor a ListenerSet of one, is its parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, json, structs

from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.api.gateway_networking import GROUP
from varnish_gateway.ir import wire
from varnish_gateway.translate.conditions import Problem, listed, partially_invalid, positive, summary
from varnish_gateway.translate.gateway.route_parents import PARENTS
from varnish_gateway.translate.incremental.dependency import Table
from varnish_gateway.translate.layers import Layer
from varnish_gateway.translate.route.attachment import Attached, attach
from varnish_gateway.translate.route.rules import Rules, translate_rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from varnish_gateway.api.gateway_networking import ParentReference
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.options import Options

PARENT_KINDS: Mapping[tuple[str, str], type[api.Object]] = {
    (GROUP, kind.kind): kind for kind in (api.Gateway, api.ListenerSet)
}
TOO_LARGE = wire.Rule(
    matches=(wire.Match(path=wire.PathMatch(type="regex", value=".*")),), status=500, approximate=True
)
"""As an approximate regex it ranks below every other path, so that it hides no other route of its hostnames."""

_encode = json.Encoder().encode

Answer = tuple[Attached, ...] | Problem


class TranslatedRoute(Struct, frozen=True):
    """``attached`` names the listeners that count the route as theirs, each with its Gateway or ListenerSet.

    ``tls_targets`` are those of BackendTLSPolicies that it uses, each with a Gateway that the policy's status names.
    """

    routes: dict[Key, wire.Route]
    attached: frozenset[tuple[Key, str]]
    tls_targets: frozenset[tuple[Key, str]]
    status: ir.RouteStatus


class AnsweredRef(Struct, frozen=True):
    """A parentRef that is ours to answer, and the answer."""

    ref: ParentReference
    gateway: Key
    answer: Answer


def translate_route(key: Key, options: Options, view: View) -> TranslatedRoute | None:
    """Translate one route."""
    route = view.find(api.HTTPRoute, key.namespace, key.name)
    if route is None:
        return None
    asked = (_parent(ref, route, options, view) for ref in route.spec.parent_refs)
    parents = [parent for parent in asked if parent is not None]
    if not parents:
        return None
    taken = _taken(parents)
    allow_external_name = options.allow_external_name
    translated = translate_rules(route, allow_external_name=allow_external_name, attached=bool(taken), view=view)
    rules = _within(options.route_limit, translated)
    return TranslatedRoute(
        routes={gateway: found for gateway, by in taken.items() if (found := _route(route, rules, by)) is not None},
        attached=frozenset(_counted(taken) if rules.rejection is None else ()),
        tls_targets=frozenset((target, f"{by.namespace}/{by.name}") for target in rules.tls_targets for by in taken),
        status=ir.RouteStatus(tuple(_status(route, parent, rules, options.controller) for parent in parents)),
    )


def _within(limit: int | None, rules: Rules) -> Rules:
    """Return the rules; one that answers 500 in their place where they are too large to be carried."""
    if rules.excess is not None:
        message = rules.excess
    elif limit is None or (size := len(_encode(rules.rules))) <= limit:
        return rules
    else:
        message = f"its rules have {size:,} bytes, more than the limit of {limit:,}; split the route"
    return structs.replace(rules, rules=(TOO_LARGE,), invalid=(Problem("UnsupportedValue", message),))


def _parent(ref: ParentReference, route: api.HTTPRoute, options: Options, view: View) -> AnsweredRef | None:
    """Return a parentRef with its answer, or None where it is not for us to answer."""
    kind = PARENT_KINDS.get((ref.group, ref.kind))
    if kind is None:
        return None
    key = Key(ref.kind, ref.namespace or route.metadata.namespace, ref.name)
    if (parent := view.get(PARENTS, key)) is not None:
        return AnsweredRef(ref, parent.gateway, attach(route, ref, parent, view))
    # Elsewhere a Gateway that we can't see may be another controller's; on one machine there is no other.
    if options.one_machine and view.find(kind, key.namespace, key.name) is None:
        return AnsweredRef(ref, key, Problem("NoMatchingParent", f"{key} does not exist"))
    return None


def _taken(parents: Sequence[AnsweredRef]) -> dict[Key, dict[str, Attached]]:
    """Return the listeners that the route attaches to, by Gateway and id: several parentRefs can name one."""
    taken: dict[Key, dict[str, Attached]] = {}
    for parent in parents:
        if not isinstance(parent.answer, Problem):
            taken.setdefault(parent.gateway, {}).update({by.listener.id: by for by in parent.answer})
    return taken


def _counted(taken: Mapping[Key, Mapping[str, Attached]]) -> Iterator[tuple[Key, str]]:
    return ((by.owner, by.listener.name) for listeners in taken.values() for by in listeners.values())


def _route(route: api.HTTPRoute, rules: Rules, taken: Mapping[str, Attached]) -> wire.Route | None:
    attachments = tuple(
        wire.Attachment(listener=name, hostnames=by.hostnames) for name, by in taken.items() if by.listener.is_served
    )
    if not attachments:
        return None
    return wire.Route(
        namespace=route.metadata.namespace,
        name=route.metadata.name,
        created=route.created,
        attachments=attachments,
        rules=rules.rules,
    )


def _status(route: api.HTTPRoute, parent: AnsweredRef, rules: Rules, controller: str) -> ir.ParentStatus:
    generation = route.metadata.generation
    return ir.ParentStatus(_echo(parent.ref), controller, tuple(_conditions(parent.answer, rules, generation)))


def _conditions(answer: Answer, rules: Rules, generation: int) -> Iterator[ir.Condition]:
    problem = answer if isinstance(answer, Problem) else rules.rejection
    yield positive("Accepted", problem, generation, message=_unserved(answer))
    yield positive("ResolvedRefs", summary(rules.unresolved), generation)
    if problem is None and rules.invalid:
        yield partially_invalid(rules.invalid, generation)


def _unserved(answer: Answer) -> str:
    """Return a hint where the route attaches to a listener that is not served itself."""
    if isinstance(answer, Problem):
        return ""
    unserved = listed([by.listener.name for by in answer if not by.listener.is_served], ", ")
    return f"not served, see the listener's own conditions: {unserved}" if unserved else ""


def _echo(ref: ParentReference) -> ir.ParentRef:
    return ir.ParentRef(
        ref.group,
        ref.kind,
        ref.name,
        UNSET if ref.namespace is None else ref.namespace,
        UNSET if ref.section_name is None else ref.section_name,
        UNSET if ref.port is None else ref.port,
    )


def publish(delta: ir.Delta, key: Key, before: TranslatedRoute | None, after: TranslatedRoute | None) -> None:
    """Add the route to the delta of every Gateway where it changed; None where it is not attached any more."""
    was, now = (found.routes if found else {} for found in (before, after))
    for gateway in {**was, **now}:
        route = now.get(gateway)
        if route == was.get(gateway):
            continue
        changes = delta.gateways.setdefault(gateway, ir.GatewayDelta())
        if changes is not None:  # a Gateway that is deleted takes its routes with it
            changes.routes[key] = route


ROUTES: Table[TranslatedRoute] = Table("translated HTTPRoute")
LAYER = Layer(
    table=ROUTES,
    kinds=(api.HTTPRoute.kind,),
    compute=translate_route,
    status=lambda found: found.status,
    counted=lambda found: found.attached | found.tls_targets,
    publish=publish,
)
