"""An operator with another image replaces the pods of all its Gateways, a few at a time."""

import asyncio

from support.kube.documents import gateway
from support.simulation.documents import HOME, OURS, basics, pod
from support.simulation.operators import SimulatedOperator, at_rest
from support.simulation.store import Store
from support.simulation.virtualtime import in_virtual_time
from varnish_gateway.api import Key
from varnish_gateway.emit import names
from varnish_gateway.operator.settings import ROLLOUTS_AT_ONCE

GATEWAYS = [f"g{number}" for number in range(3 * ROLLOUTS_AT_ONCE)]
SOON = 12.0
"""Within that, in seconds, a postponed Deployment is looked at again."""


def upgraded(store: Store) -> set[Key]:
    """Return the Deployments with the new image."""
    deployments = {key: document for key, document in store.documents.items() if key.kind == "Deployment"}
    return {key for key, document in deployments.items() if "gateway:2" in str(document["spec"]["template"])}


def programmed(store: Store, name: str) -> tuple[str, str]:
    conditions = store.documents[Key("Gateway", HOME, name)]["status"]["conditions"]
    found = next(one for one in conditions if one["type"] == "Programmed")
    return found["status"], found["message"]


async def running(store: Store, *, image: str) -> SimulatedOperator:
    operator = SimulatedOperator(store, image=image)
    await asyncio.sleep(SOON)
    store.give_addresses()
    store.replace_pods()
    await asyncio.sleep(SOON)
    return operator


@in_virtual_time
async def test_new_image_reaches_a_bounded_number_of_gateways_at_a_time():
    store = Store()
    store.put(
        *basics(), *(gateway(HOME, name, OURS) for name in GATEWAYS), *(pod(name, name, OURS) for name in GATEWAYS)
    )
    first = await running(store, image="gateway:1")
    assert await at_rest(store, [first])
    await first.stop()
    assert {programmed(store, name)[0] for name in GATEWAYS} == {"True"}

    second = SimulatedOperator(store, image="gateway:2")
    finished: set[Key] = set()
    while len(finished) < len(GATEWAYS):
        await asyncio.sleep(SOON)
        rolling = upgraded(store) - finished
        assert 0 < len(rolling) <= ROLLOUTS_AT_ONCE
        for name in GATEWAYS:
            status, message = programmed(store, name)
            is_waiting = Key("Deployment", HOME, names.workload(name)) not in rolling | finished
            assert status == "True", "pods of the previous version serve"
            assert ("an upgrade is pending" in message) == is_waiting
        store.replace_pods(*rolling)
        finished |= rolling
    assert await at_rest(store, [second])
    await second.stop()
