"""Which namespaces a listener takes routes from, and a Gateway ListenerSets (allowedRoutes, allowedListeners).

In:   the choice, both namespaces, and the view for labels.
Out:  yes or no. A choice that we don't know takes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from varnish_gateway.api.gateway_networking import RouteNamespaces
    from varnish_gateway.api.meta import LabelSelector, SelectorRequirement
    from varnish_gateway.translate.incremental.view import View


def allowed(choice: RouteNamespaces, *, owner: str, guest: str, view: View) -> bool:
    """Return whether what is in the guest's namespace may attach to what is in the owner's."""
    if choice.from_ == "All":
        return True
    if choice.from_ == "Same":
        return owner == guest
    if choice.from_ == "Selector" and choice.selector is not None:
        return selects(choice.selector, view.namespace_labels(guest))
    return False


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Return whether labels satisfy everything that a selector asks for."""
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        _satisfies(requirement, labels) for requirement in selector.match_expressions
    )


def _satisfies(requirement: SelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False
