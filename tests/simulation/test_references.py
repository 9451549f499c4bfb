"""Objects that the operator reads only because others reference them."""

from support.kube.churn import user_vcl
from support.simulation.documents import HOME, OURS, basics, class_parameters
from support.simulation.operators import SimulatedOperator, at_rest
from support.simulation.store import Store
from support.simulation.virtualtime import in_virtual_time
from varnish_gateway.api import Key

CLASS = Key("GatewayClass", "", OURS)


def accepted(store: Store) -> list[str]:
    """Return the status of the class's condition Accepted, of every change of the class."""
    written = [change.after.get("status", {}) for change in store.changes if change.key == CLASS]
    conditions = [condition for status in written for condition in status.get("conditions", ())]
    return [condition["status"] for condition in conditions if condition["type"] == "Accepted"]


@in_virtual_time
async def test_config_map_is_read_before_a_status_is_written_that_depends_on_it():
    store = Store()
    store.put(*basics())
    operator = SimulatedOperator(store)
    assert await at_rest(store, [operator])
    vcl = user_vcl(HOME)
    vcl["metadata"]["name"] = "another"
    store.put(vcl, class_parameters("another"))
    assert await at_rest(store, [operator])
    assert accepted(store)[-1] == "True"
    assert "False" not in accepted(store)
    await operator.stop()


@in_virtual_time
async def test_missing_config_map_is_reported_and_picked_up_once_it_is_created():
    store = Store()
    store.put(*basics(), class_parameters("another"))
    operator = SimulatedOperator(store)
    assert await at_rest(store, [operator])
    assert accepted(store)[-1] == "False"
    vcl = user_vcl(HOME)
    vcl["metadata"]["name"] = "another"
    store.put(vcl)
    assert await at_rest(store, [operator])
    assert accepted(store)[-1] == "True"
    await operator.stop()
