"""Two operators at once: only the one that leads writes, and the other one takes over."""

import itertools
import os
import re
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cluster.apiserver.server import Cluster
from support.kube.bulk import restore, twins
from support.kube.documents import gateway, gateway_class, path_of, put, route, service
from support.kube.operator_process import SYSTEM, OperatorProcess
from support.kube.states import is_as_translated, listed, versions
from support.waiting import until

SHORT = {"LEASE_SECONDS": "3"}
LONG = {"LEASE_SECONDS": "60"}
"""Longer than any test waits: an operator that takes over earlier was given the lease."""
CROWD = 1500
WRITING = ("apply", "patch", "create", "delete")

Start = Callable[..., OperatorProcess]


@pytest.fixture
def class_name(cluster: Cluster, namespace: str) -> str:
    put(cluster, gateway_class(namespace), service(namespace, "tea"), gateway(namespace, "gw", namespace))
    return namespace


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path, class_name: str, operators: list[OperatorProcess]) -> Start:
    """Return how to launch one more operator."""
    turn = itertools.count()

    def start(environment: dict[str, str]) -> OperatorProcess:
        name = f"operator-{next(turn)}"
        operator = OperatorProcess(cluster, tmp_path, class_name=class_name, name=name, environment=environment)
        operators.append(operator)
        return operator.launch().await_ready()

    return start


def lease_path(class_name: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/varnish-gateway-operator-{class_name}"


def sent(operator: OperatorProcess) -> float:
    """Return how many writes of everything but leases and Events the API server has answered."""
    requests = re.compile(r'vgw_kube_requests_total\{verb="(\w+)",kind="(\w+)",code="2\d\d"\}')
    return sum(
        value
        for name, value in operator.metrics().items()
        if (found := requests.fullmatch(name)) and found[1] in WRITING and found[2] not in ("Lease", "Event")
    )


def leads(operator: OperatorProcess) -> bool:
    return operator.metrics()["vgw_operator_leading"] == 1


def saw(operator: OperatorProcess, routes: int) -> bool:
    return operator.metrics()['vgw_kube_objects{kind="HTTPRoute"}'] >= routes


def put_and_await(cluster: Cluster, namespace: str, name: str) -> None:
    """Have a route, and wait until it is carried out."""
    put(cluster, route(namespace, name, "gw", backend={"name": "tea"}))
    until(lambda: is_as_translated(cluster, namespace), f"{name} is written", 40)


def test_stopped_leader_hands_over_and_only_the_leader_writes(cluster, namespace, start):
    leader = start(LONG).wait_idle()
    standby = start(LONG)
    for name in ("a", "b", "c"):
        put_and_await(cluster, namespace, name)
    assert sent(leader) > 3
    assert (sent(standby), leads(standby)) == (0, False)
    leader.stop()
    put_and_await(cluster, namespace, "d")
    assert sent(standby.at_rest()) <= 5  # shard, statuses of route and Gateway: what the other one wrote is left alone
    assert cluster.request("GET", lease_path(namespace))["spec"]["holderIdentity"].startswith(f"{standby.name}_")


def test_killed_leader_is_replaced_after_its_lease(cluster, namespace, start):
    leader = start(SHORT).wait_idle()
    standby = start(SHORT)
    put_and_await(cluster, namespace, "a")
    leader.kill()
    put_and_await(cluster, namespace, "b")
    assert standby.wait_idle().metrics()["vgw_operator_leading"] == 1


def test_leader_suspended_beyond_its_lease_writes_nothing_afterwards(cluster, namespace, start):
    leader = start(SHORT).wait_idle()
    standby = start(SHORT)
    put(cluster, *(route(namespace, f"r{number}", "gw", backend={"name": "tea"}) for number in range(20)))
    os.kill(leader.pid, signal.SIGSTOP)
    put(cluster, *(route(namespace, f"r{number}", "gw", backend={"name": "coffee"}) for number in range(20)))
    standby.wait_idle()
    until(lambda: is_as_translated(cluster, namespace), "the other one has done everything", 40)
    standby.at_rest()
    before = versions(cluster)
    os.kill(leader.pid, signal.SIGCONT)
    until(lambda: not leads(leader), "it knows that it does not lead")
    written = sent(leader)
    put_and_await(cluster, namespace, "after")
    until(lambda: saw(leader, 21), "it has seen the change")
    assert sent(leader) == written
    after = versions(cluster)
    assert {key for key in before if before[key] != after[key]} == {
        ("ConfigMap", namespace, "gw-vcl"),
        ("Gateway", namespace, "gw"),
    }


def test_lost_lease_stops_queued_writes_at_once(cluster, namespace, start):
    leader = start(SHORT).wait_idle()
    put_and_await(cluster, namespace, "tea")
    first = cluster.request("GET", path_of(route(namespace, "tea", "gw")))
    blank = {**first, "status": {"parents": []}}
    restore(cluster, "httproutes", twins(blank, (f"r{number}" for number in range(CROWD))))
    cluster.merge(lease_path(namespace), {"spec": somebody_else()})
    until(lambda: not leads(leader), "it has seen that the lease is lost")
    waiting = without_status(cluster, namespace)
    assert waiting, "all was written before the lease was lost: this proves nothing"
    put(cluster, route(namespace, "late", "gw"))
    until(lambda: saw(leader, CROWD + 2), "it has seen all")
    before, written = versions(cluster), sent(leader)
    put(cluster, route(namespace, "later", "gw"))
    until(lambda: saw(leader, CROWD + 3), "it has seen one more")
    assert sent(leader) == written
    after = versions(cluster)
    assert {key for key in after if before.get(key) != after[key]} == {("HTTPRoute", namespace, "later")}

    cluster.request("DELETE", lease_path(namespace))
    until(lambda: not without_status(cluster, namespace), "it leads again and has gone on", 60)


def somebody_else() -> dict:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"holderIdentity": "somebody else", "leaseDurationSeconds": 3600, "renewTime": now}


def without_status(cluster: Cluster, namespace: str) -> set[str]:
    """Return the routes that have no status yet."""
    return {
        item["metadata"]["name"]
        for item in listed(cluster, "HTTPRoute")
        if item["metadata"]["namespace"] == namespace and not item.get("status", {}).get("parents")
    }
