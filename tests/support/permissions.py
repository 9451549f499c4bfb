"""The permissions that the table of kinds asks for.

In:   kinds.KINDS.
Out:  by resource and API group, the verbs that the operator needs in every namespace.
"""

from collections import defaultdict

from varnish_gateway.kinds import KINDS, Use

WATCH = frozenset({"list", "watch"})
MANAGE = WATCH | {"get", "create", "patch", "delete"}

VERBS: dict[Use, tuple[str, frozenset[str]]] = {
    Use.INPUT: ("", WATCH),
    Use.REFERENCED: ("", WATCH),
    Use.STATUS: ("/status", frozenset({"patch"})),
    Use.EXPIRES: ("", frozenset({"delete"})),
    Use.FINALIZER: ("", frozenset({"patch"})),
    # An API server with the admission plugin OwnerReferencesPermissionEnforcement requires it.
    Use.OWNER: ("/finalizers", frozenset({"update"})),
    Use.OWNED: ("", MANAGE),
    Use.POD: ("", WATCH),
    Use.EVENT: ("", frozenset({"create", "patch"})),
}
"""By use: the subresource, and the verbs in every namespace. A lease is held in one namespace, by name."""


def operator_permissions() -> dict[tuple[str, str], set[str]]:
    """Return what the operator's ClusterRole grants, except for binding the chaperone's role."""
    granted: dict[tuple[str, str], set[str]] = defaultdict(set)
    for kind in KINDS.values():
        for use, (subresource, verbs) in VERBS.items():
            if use in kind.uses:
                granted[kind.plural + subresource, kind.group] |= verbs
    return dict(granted)
