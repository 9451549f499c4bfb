"""What the operator reads of a pod."""

import json

import pytest

from varnish_gateway.operator.observe.pods import GatewayPod, decode_pod

STARTED = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def pod(**status) -> GatewayPod:
    metadata = {"name": "p", "namespace": "shop", "annotations": {"gateway.varnish-software.com/gateway": "gw"}}
    return decode_pod(json.dumps({"metadata": metadata, "status": {"podIP": "192.0.2.1", **status}}).encode())


def containers(state: dict) -> list[dict]:
    return [{"name": "log", "state": STARTED}, {"name": "gateway", "state": state}]


def test_start_of_a_pod_is_that_of_its_gateway():
    found = pod(containerStatuses=containers(STARTED))
    assert (found.is_running, found.started) == (True, 1767225600.0)


@pytest.mark.parametrize("state", [{"waiting": {"reason": "CrashLoopBackOff"}}, {"terminated": {"exitCode": 1}}])
def test_pod_whose_gateway_restarts_does_not_run(state):
    found = pod(containerStatuses=containers(state))
    assert (found.is_running, found.started) == (False, None)


def test_pod_without_a_report_of_its_containers_may_run():
    assert (pod().is_running, pod().started) == (True, None)
    assert not pod(podIP="").is_running
    assert not pod(phase="Failed").is_running
