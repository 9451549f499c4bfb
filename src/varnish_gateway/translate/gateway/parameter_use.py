"""GatewayClassParameters that no GatewayClass references: they have no effect, and their author may not know.

In:   GatewayClasses and GatewayClassParameters, as they change.
Out:  those without a reference. There are few of both kinds.
Pure.
"""

from varnish_gateway import api
from varnish_gateway.api import Key

UNREFERENCED = "has no effect: no GatewayClass references it in spec.parametersRef"


class ParameterUse:
    def __init__(self) -> None:
        self._parameters: set[Key] = set()
        self._referenced: dict[Key, Key] = {}  # by class

    @property
    def unreferenced(self) -> set[Key]:
        return self._parameters.difference(self._referenced.values())

    def update(self, key: Key, obj: api.Object | None) -> set[Key]:
        """Apply a changed object; return parameters that became unreferenced by that."""
        if key.kind not in (api.GatewayClass.kind, api.GatewayClassParameters.kind):
            return set()
        before = self.unreferenced
        if key.kind == api.GatewayClassParameters.kind:
            self._parameters.discard(key)
            if obj is not None:
                self._parameters.add(key)
        else:
            self._referenced.pop(key, None)
            if isinstance(obj, api.GatewayClass) and (ref := obj.spec.parameters_ref) is not None:
                self._referenced[key] = Key(ref.kind, "", ref.name)
        return self.unreferenced - before
