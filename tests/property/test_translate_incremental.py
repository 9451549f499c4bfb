"""Any sequence of changes comes to the same as starting from what is there at its end."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from property.translate_worlds import Changes, batches, options, worlds
from varnish_gateway import api, ir
from varnish_gateway.ir import wire
from varnish_gateway.translate import Translator


class Told:
    """What someone knows who has read every delta."""

    def __init__(self) -> None:
        self.statuses: dict[api.Key, ir.Status] = {}
        self.listeners: dict[api.Key, tuple[wire.Listener, ...]] = {}
        self.user_vcl: dict[api.Key, object] = {}
        self.parameters: dict[api.Key, ir.Parameters] = {}
        self.tls: dict[api.Key, ir.Tls] = {}
        self.routes: dict[api.Key, dict[api.Key, wire.Route]] = {}

    def read(self, delta: ir.Delta) -> None:
        self.statuses = merged(self.statuses, delta.statuses)
        for key, changes in delta.gateways.items():
            told = (self.listeners, self.user_vcl, self.parameters, self.routes, self.tls)
            for known in told if changes is None else ():
                known.pop(key, None)
            if changes is not None:
                self.read_gateway(key, changes)

    def read_gateway(self, key: api.Key, changes: ir.GatewayDelta) -> None:
        if changes.listeners is not None:
            self.listeners[key] = changes.listeners
        if changes.user_vcl is not UNSET:
            self.user_vcl[key] = changes.user_vcl
        if changes.parameters is not None:
            self.parameters[key] = changes.parameters
        self.tls[key] = changes.tls or self.tls.get(key, ir.Tls())
        self.routes[key] = merged(self.routes.get(key, {}), changes.routes)


def merged(known: dict, changes: dict) -> dict:
    return {key: value for key, value in {**known, **changes}.items() if value is not None}


histories = st.builds(lambda world, updates: [world, *updates], worlds, st.lists(batches, max_size=5))


@given(histories, options)
def test_incremental_equals_from_scratch(updates: list[Changes], given_options: dict) -> None:
    present: Changes = {}
    translator, told = Translator(**given_options), Told()
    for changes in updates:
        present = merged(present, changes)
        told.read(translator.update(changes))
        scratch = Told()
        scratch.read(Translator(**given_options).update(present))
        assert told.statuses == scratch.statuses
        assert told.listeners == scratch.listeners
        assert told.user_vcl == scratch.user_vcl
        assert told.routes == scratch.routes
        assert told.tls == scratch.tls
        # Parameters that can't be had now stay what they were.
        assert scratch.parameters.items() <= told.parameters.items()


@given(histories, options)
def test_the_same_again_changes_nothing(updates: list[Changes], given_options: dict) -> None:
    translator = Translator(**given_options)
    for changes in updates:
        translator.update(changes)
        assert translator.update(changes) == ir.Delta()
