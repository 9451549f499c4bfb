"""Answer the parentRefs of a route.

In:   a route, and the view for its parents.
Out:  each parentRef that is ours to answer, with the answer; the listeners that the route attaches to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from varnish_gateway import api
from varnish_gateway.api import Key
from varnish_gateway.api.gateway_networking import GROUP
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.gateway.route_parents import PARENTS
from varnish_gateway.translate.route.attachment import Attached, attach

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from varnish_gateway.api.gateway_networking import ParentReference
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.options import Options

PARENT_KINDS: Mapping[tuple[str, str], type[api.Object]] = {
    (GROUP, kind.kind): kind for kind in (api.Gateway, api.ListenerSet)
}

Answer = tuple[Attached, ...] | Problem


class AnsweredRef(Struct, frozen=True):
    """A parentRef that is ours to answer, and the answer."""

    ref: ParentReference
    gateway: Key
    answer: Answer


def answered_refs(route: api.HTTPRoute, options: Options, view: View) -> Sequence[AnsweredRef]:
    """Return the parentRefs of a route that are ours to answer."""
    asked = (_parent(ref, route, options, view) for ref in route.spec.parent_refs)
    return [parent for parent in asked if parent is not None]


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


def taken_by(parents: Sequence[AnsweredRef]) -> dict[Key, dict[str, Attached]]:
    """Return the listeners that the route attaches to, by Gateway and id: several parentRefs can name one."""
    taken: dict[Key, dict[str, Attached]] = {}
    for parent in parents:
        if not isinstance(parent.answer, Problem):
            taken.setdefault(parent.gateway, {}).update({by.listener.id: by for by in parent.answer})
    return taken
