"""The address of a Gateway, with operators that lead and that don't, and pods that come and go."""

import asyncio
import base64

import pytest

from support.kube.documents import gateway
from support.simulation.documents import HOME, OURS, basics, pod
from support.simulation.operators import SimulatedOperator, at_rest
from support.simulation.store import Store
from support.simulation.virtualtime import in_virtual_time, now
from varnish_gateway.api import Key
from varnish_gateway.api.gateway_networking import INVALIDATION_TOKENS
from varnish_gateway.emit import names
from varnish_gateway.operator.address.broadcast import Broadcast

SECONDS = 25.0


def cluster(*pods: str) -> Store:
    """Return a store with a Gateway that names tokens, and its pods."""
    store, made = Store(), gateway(HOME, "gw", OURS)
    made["metadata"]["annotations"] = {INVALIDATION_TOKENS: "purgers"}
    store.put(*basics(), made, *(pod(name, "gw", OURS) for name in pods))
    return store


def broadcast(operator: SimulatedOperator) -> Broadcast:
    found = operator.addressed.find(HOME, "gw")
    assert found is not None
    return Broadcast(found.pods, lambda one: operator.pods.invalidate_one(one, b"{}", found.token), 1)


def results(made: Broadcast) -> dict[str, str]:
    return {name: one.reason for name, one in made.accounts.results.items()}


@in_virtual_time
async def test_operator_that_does_not_lead_reaches_pods_with_the_token_that_the_leader_has_stored():
    store = cluster("a", "b")
    operators = [SimulatedOperator(store), SimulatedOperator(store, leads=False)]
    assert await at_rest(store, operators)
    stored = store.documents[Key("Secret", HOME, names.secret("gw"))]["data"][names.TOKEN]
    for operator in operators:
        found = operator.addressed.find(HOME, "gw")
        assert (found.secret, found.token) == ("purgers", base64.b64decode(stored).decode())
        made = broadcast(operator)
        await made.run(SECONDS)
        assert (results(made), made.objects) == ({"a": "Confirmed", "b": "Confirmed"}, [2])
    for operator in operators:
        await operator.stop()


@pytest.mark.parametrize("leads", [True, False])
def test_every_pod_of_the_time_is_named_while_one_is_killed_and_another_joins(leads):
    @in_virtual_time
    async def test() -> None:
        store = cluster("a", "silent")
        operators = [SimulatedOperator(store, leads=leads), SimulatedOperator(store, leads=not leads)]
        assert await at_rest(store, operators)
        made, began = broadcast(operators[0]), now()
        running = asyncio.create_task(made.run(SECONDS))
        await asyncio.sleep(1)
        store.put(pod("joined", "gw", OURS))
        await asyncio.sleep(1)
        assert not running.done()
        store.delete(Key("Pod", HOME, "silent"))
        await running
        assert now() - began < 5, "it does not wait for a pod that is gone"
        assert results(made) == {"a": "Confirmed", "joined": "Confirmed", "silent": "Gone"}
        for operator in operators:
            await operator.stop()

    test()
