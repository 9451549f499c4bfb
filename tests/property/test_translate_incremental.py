"""Any sequence of changes comes to the same as starting from what is there at its end."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from support.builders.worlds import BACKBONE, Changes, batches, budget_batches, budget_options, options, worlds
from varnish_gateway import api, ir
from varnish_gateway.translate import Translator
from varnish_gateway.translate.compilation import compile_object, compiled_key
from varnish_gateway.translate.tls.served import served_after


class Reader:
    """A consumer that has applied every delta."""

    def __init__(self) -> None:
        self.statuses: dict[api.Key, ir.Status] = {}
        self.gateways: dict[api.Key, ir.GatewayState] = {}

    def apply(self, delta: ir.Delta) -> None:
        self.statuses = merged(self.statuses, delta.statuses)
        for key, changes in delta.gateways.items():
            if changes is None:
                self.gateways.pop(key, None)
            else:
                self.gateways.setdefault(key, ir.GatewayState()).apply(changes)


def merged(known: dict, changes: dict) -> dict:
    return {key: value for key, value in {**known, **changes}.items() if value is not None}


histories = st.builds(lambda world, updates: [world, *updates], worlds, st.lists(batches, max_size=5))
budget_histories = st.lists(budget_batches, min_size=2, max_size=6).map(lambda updates: [BACKBONE, *updates])


@given(histories, options)
def test_incremental_translation_equals_translation_from_scratch(updates: list[Changes], given_options: dict) -> None:
    present: Changes = {}
    served: Changes = {}
    translator, reader = Translator(**given_options), Reader()
    for changes in updates:
        changed = {**changes, **served}
        present = merged(present, changed)
        delta = translator.update(changed)
        served = served_after(delta)
        reader.apply(delta)
        scratch = Reader()
        scratch.apply(Translator(**given_options).update(present))
        assert reader.statuses == scratch.statuses
        assert reader.gateways.keys() == scratch.gateways.keys()
        for key, state in reader.gateways.items():
            assert_equal_but_for_last_valid(state, scratch.gateways[key])


@given(budget_histories, budget_options)
def test_budgets_that_routes_and_policies_share_are_the_same_whatever_came_first(
    updates: list[Changes], given_options: dict
) -> None:
    present: Changes = {}
    translator, reader = Translator(**given_options), Reader()
    for changes in updates:
        present = merged(present, changes)
        reader.apply(translator.update(changes))
    scratch = Reader()
    scratch.apply(Translator(**given_options).update(present))
    assert reader.statuses == scratch.statuses
    assert reader.gateways == scratch.gateways


def assert_equal_but_for_last_valid(state: ir.GatewayState, scratch: ir.GatewayState) -> None:
    """Compare two states; parameters and user VCL that are invalid now keep their last valid value."""
    for name in ("listeners", "placed", "user_vcl_unavailable", "routes", "tls"):
        assert getattr(state, name) == getattr(scratch, name)
    if scratch.parameters is not None:
        assert state.parameters == scratch.parameters
    if scratch.user_vcl is not UNSET:
        assert state.user_vcl == scratch.user_vcl


@given(histories, options)
def test_repeated_update_returns_an_empty_delta(updates: list[Changes], given_options: dict) -> None:
    translator = Translator(**given_options)
    for changes in updates:
        translator.update(changes)
        assert translator.update(changes) == ir.Delta()


@given(histories, options, st.data())
def test_routes_compiled_at_any_time_end_as_if_compiled_in_passing(
    updates: list[Changes], given_options: dict, data: st.DataObject
) -> None:
    translator, reader = Translator(**given_options, compiles=False), Reader()
    at_once, scratch = Translator(**given_options), Reader()
    waiting: dict[api.Key, api.Object] = {}
    for changes in (*updates, {}):
        now = data.draw(st.lists(st.sampled_from(sorted(waiting)), unique=True)) if waiting and changes else [*waiting]
        finished = {compiled_key(key): compile_object(waiting[key]) for key in now}
        delta = translator.update({**changes, **finished})
        waiting = merged(waiting, delta.uncompiled)
        reader.apply(delta)
        scratch.apply(at_once.update(changes))
    reader.apply(translator.update({compiled_key(key): compile_object(route) for key, route in waiting.items()}))
    assert reader.statuses == scratch.statuses
    assert {key: state.routes for key, state in reader.gateways.items()} == {
        key: state.routes for key, state in scratch.gateways.items()
    }
