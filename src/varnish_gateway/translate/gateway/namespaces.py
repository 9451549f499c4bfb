"""From which namespaces routes may attach to a listener, and ListenerSets to a Gateway.

In:   the namespaces of allowedRoutes or allowedListeners, both namespaces, and the view for labels.
Out:  yes or no. An unknown value of ``from`` allows nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from varnish_gateway import api

if TYPE_CHECKING:
    from collections.abc import Mapping

    from varnish_gateway.api.gateway_networking import RouteNamespaces
    from varnish_gateway.api.meta import LabelSelector, SelectorRequirement
    from varnish_gateway.translate.incremental.view import View


def allowed(choice: RouteNamespaces, *, owner: str, guest: str, view: View) -> bool:
    """Return whether an object of the guest's namespace may attach to one of the owner's."""
    if choice.from_ == "All":
        return True
    if choice.from_ == "Same":
        return owner == guest
    if choice.from_ == "Selector" and choice.selector is not None:
        return selects(choice.selector, labels_of(guest, view))
    return False


def labels_of(namespace: str, view: View) -> Mapping[str, str]:
    """Return a namespace's labels; every namespace has its name as a label, even without a Namespace object."""
    found = view.find(api.Namespace, "", namespace)
    return {**(found.metadata.labels if found else {}), "kubernetes.io/metadata.name": namespace}


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Return whether labels satisfy every requirement of a selector."""
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
