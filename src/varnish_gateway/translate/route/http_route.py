"""Translate one HTTPRoute, alone.

In:   its key and a view.
Out:  TranslatedRoute: a wire.Route for each Gateway that it attaches to, the listeners that count it,
      and its status. None where no Gateway of ours, nor a ListenerSet of one, is its parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, structs

from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.ir import wire
from varnish_gateway.ir.wire import encoded_size
from varnish_gateway.translate.conditions import Problem, listed, partially_invalid, pending_regexes, positive, summary
from varnish_gateway.translate.incremental.dependency import Table
from varnish_gateway.translate.layers import Layer
from varnish_gateway.translate.route.compiled_matches import compile_matches
from varnish_gateway.translate.route.parents import Answer, AnsweredRef, answered_refs, taken_by
from varnish_gateway.translate.route.rule_policies import policies_of, weighted_routes, with_policies, within_limits
from varnish_gateway.translate.route.rules import Rules, translate_rules
from varnish_gateway.translate.route.versions import VERSIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from varnish_gateway.api.gateway_networking import ParentReference
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.options import Options
    from varnish_gateway.translate.route.attachment import Attached
    from varnish_gateway.translate.route.compiled_matches import CompiledMatches
    from varnish_gateway.translate.route.rule_policies import RulePolicies

TOO_LARGE = wire.Rule(
    matches=(wire.Match(path=wire.PathMatch(type="regex", value=".*")),), status=500, approximate=True
)
"""As an approximate regex it ranks below every other path, so that it hides no other route of its hostnames."""

Attachments = tuple[wire.Attachment, ...]


class TranslatedRoute(Struct, frozen=True):
    """``attached`` names the listeners that count the route as theirs, each with its Gateway or ListenerSet.

    ``tls_targets`` are those of BackendTLSPolicies that it uses, each with a Gateway that the policy's status names.
    ``policy_excess`` is why the cache policies of its rules are too much, so that they are off.
    """

    routes: dict[Key, wire.Route]
    attached: frozenset[tuple[Key, str]]
    tls_targets: frozenset[tuple[Key, str]]
    status: ir.RouteStatus
    policy_excess: str | None = None

    @property
    def counted(self) -> frozenset[tuple[Key, str]]:
        return self.attached | self.tls_targets | weighted_routes(self.routes)


def translate_route(key: Key, options: Options, view: View) -> TranslatedRoute | None:
    """Translate one route."""
    version = view.get(VERSIONS, key)
    route = version.route if version else view.find(api.HTTPRoute, key.namespace, key.name)
    if route is None or not (parents := answered_refs(route, options, view)):
        return None
    taken = taken_by(parents)
    if version is not None and version.is_pending:
        return _pending(route, parents, options)
    compiled = (version.compiled if version else None) or compile_matches(route)
    translated = translate_rules(route, compiled, allow_external_name=options.allow_external_name, view=view)
    rules = _within(options.route_limit, translated)
    attachments = {gateway: _attachments(by) for gateway, by in taken.items()}
    on = {gateway: _sharing(gateway, key, compiled, rules, view) for gateway in taken} if compiled.charges else {}
    policies = policies_of(route, view)
    if policies.holders and rules.rejection is None:
        spent = sum(compiled.charges.values())
        policies = within_limits(policies, rules.rules, spent, options.route_limit, view)
        on = {gateway: _cached(on.get(gateway, rules), policies, gateway, view) for gateway in taken}
    on |= (too_large := _too_large(attachments, rules, options.attachments_limit))
    served = (
        (gateway, _route(route, on.get(gateway, rules), attachments[gateway]))
        for gateway in taken
        if gateway not in too_large
    )
    accepted = {gateway: by for gateway, by in taken.items() if on.get(gateway, rules).rejection is None}
    return TranslatedRoute(
        routes={gateway: found for gateway, found in served if found is not None},
        attached=frozenset(_counted(accepted)),
        tls_targets=frozenset((target, f"{by.namespace}/{by.name}") for target in rules.tls_targets for by in taken),
        status=ir.RouteStatus(
            tuple(_status(route, one, on.get(one.gateway, rules), policies, options.controller) for one in parents)
        ),
        policy_excess=policies.excess,
    )


def _sharing(gateway: Key, route: Key, compiled: CompiledMatches, rules: Rules, view: View) -> Rules:
    """Return the rules of a route on a Gateway that routes of its namespace share with those of others."""
    limit = view.quota_exceeded(gateway, route)
    if limit is None or rules.rejection is not None:
        return rules
    return _rejected(
        rules,
        f"its regular expressions take {sum(compiled.charges.values()):,} bytes when compiled; with those of the "
        f"older routes of the namespace {route.namespace} that is more than the {limit:,} bytes that a namespace "
        f"has on {gateway}; use fewer or simpler ones, or the same ones in several routes",
    )


def _cached(rules: Rules, policies: RulePolicies, gateway: Key, view: View) -> Rules:
    if rules.rejection is not None:
        return rules
    return structs.replace(rules, rules=with_policies(rules.rules, policies, gateway, view))


def _pending(route: api.HTTPRoute, parents: Sequence[AnsweredRef], options: Options) -> TranslatedRoute:
    """Return a new route whose regular expressions are not compiled yet: it isn't served, and its status says why."""
    condition = pending_regexes(route.metadata.generation)
    statuses = (ir.ParentStatus(_echo(parent.ref), options.controller, (condition,)) for parent in parents)
    nothing = frozenset[tuple[Key, str]]()
    return TranslatedRoute({}, attached=nothing, tls_targets=nothing, status=ir.RouteStatus(tuple(statuses)))


def _within(limit: int | None, rules: Rules) -> Rules:
    """Return the rules; one that answers 500 in their place where they are too large to be carried."""
    if rules.excess is not None:
        message = rules.excess
    elif limit is None or (size := encoded_size(rules.rules)) <= limit:
        return rules
    else:
        message = f"its rules have {size:,} bytes, more than the limit of {limit:,}; split the route"
    return _rejected(rules, message)


def _rejected(rules: Rules, message: str) -> Rules:
    return structs.replace(rules, rules=(TOO_LARGE,), invalid=(Problem("UnsupportedValue", message),))


def _counted(taken: Mapping[Key, Mapping[str, Attached]]) -> Iterator[tuple[Key, str]]:
    return ((by.owner, by.listener.name) for listeners in taken.values() for by in listeners.values())


def _attachments(taken: Mapping[str, Attached]) -> Attachments:
    return tuple(
        wire.Attachment(listener=name, hostnames=by.hostnames) for name, by in taken.items() if by.listener.is_served
    )


def _too_large(attachments: Mapping[Key, Attachments], rules: Rules, limit: int | None) -> dict[Key, Rules]:
    """Return the rules for Gateways that can't carry the route: it is not served there."""
    if limit is None:
        return {}
    sizes = {gateway: encoded_size(found) for gateway, found in attachments.items()}
    return {
        gateway: _rejected(
            rules,
            f"its hostnames on the listeners of {gateway} that it attaches to have {size:,} bytes, more than the limit "
            f"of {limit:,}; name fewer listeners in parentRefs, or split the route",
        )
        for gateway, size in sizes.items()
        if size > limit
    }


def _route(route: api.HTTPRoute, rules: Rules, attachments: Attachments) -> wire.Route | None:
    if not attachments:
        return None
    return wire.Route(
        namespace=route.metadata.namespace,
        name=route.metadata.name,
        created=route.created,
        attachments=attachments,
        rules=rules.rules,
    )


def _status(
    route: api.HTTPRoute, parent: AnsweredRef, rules: Rules, policies: RulePolicies, controller: str
) -> ir.ParentStatus:
    generation = route.metadata.generation
    conditions = (*_conditions(parent.answer, rules, generation), *policies.affected(generation))
    return ir.ParentStatus(_echo(parent.ref), controller, conditions)


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
    counted=lambda found: found.counted,
    publish=publish,
)
