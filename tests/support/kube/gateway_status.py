"""What a test gives a Gateway's Service, and reads from its status."""

from support.kube.operator_harness import OperatorHarness
from varnish_gateway.emit.names import workload

ADDRESS = "192.0.2.7"


def give_address(harness: OperatorHarness, address: str = ADDRESS, name: str = "gw") -> None:
    """Do what a cloud does."""
    status = {"loadBalancer": {"ingress": [{"ip": address}]}}
    harness.change("Service", workload(name), {"status": status}, subresource="status", who="cloud")


def is_programmed(harness: OperatorHarness, generation: int) -> bool:
    condition = harness.conditions("Gateway")["Programmed"]
    return (condition["status"], condition["observedGeneration"]) == ("True", generation)
