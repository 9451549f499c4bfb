"""The address of a Gateway: one request of a client, the caches of all pods, one answer."""

import http.client
import json
import threading

from support.kube.documents import Document, gateway_class, put, route, service, token_secret
from support.kube.gateway_status import give_address
from support.kube.operator_harness import OperatorHarness
from support.kube.operator_process import OperatorProcess
from support.kube.pods.gateway_pod import GatewayPod
from support.kube.pods.stub_pod import stub_pod
from varnish_gateway.api.gateway_networking import INVALIDATION_TOKENS
from varnish_gateway.cli.main import main

CI, OTHER = "everything-for-ci", "routes-of-another-namespace"
ALL = {"targets": [{"everything": True}]}


def send(operator: OperatorProcess, gateway: str, token: str | None, document: Document = ALL) -> tuple[int, Document]:
    """Send an invalidation to the address of a Gateway; return status and answer."""
    connection = http.client.HTTPConnection("127.0.0.1", operator.invalidation_port, timeout=40)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    connection.request("POST", f"/gateways/{gateway}/invalidate", json.dumps(document), headers)
    answer = connection.getresponse()
    try:
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def gateway_with_tokens(harness: OperatorHarness, *tokens: Document, name: str = "gw") -> str:
    """Have a Gateway whose annotation names a Secret with tokens; return what names it in the address."""
    harness.gateway(name)
    harness.put(token_secret(harness.namespace, "purgers", *(tokens or ({"name": "ci", "token": CI},))))
    annotate(harness, "purgers", name)
    return f"{harness.namespace}/{name}"


def annotate(harness: OperatorHarness, secret: str, name: str = "gw") -> None:
    harness.change("Gateway", name, {"metadata": {"annotations": {INVALIDATION_TOKENS: secret}}})


def until_status(harness: OperatorHarness, status: int, gateway: str, token: str = CI) -> Document:
    """Send until the response has a status: the operator observes moments later what a test has changed."""
    seen: list[tuple[int, Document]] = []

    def has_it() -> bool:
        seen[:] = [send(harness.operator, gateway, token)]
        return seen[0][0] == status

    harness.wait_for(has_it, f"{status} for {gateway}")
    return seen[0][1]


def results(answer: Document) -> dict[str, str]:
    return {one["name"]: one["result"] for one in answer["pods"]}


def test_request_reaches_a_real_chaperone_and_vgw_purge_prints_its_pod(harness, tmp_path, capsys):
    namespace = harness.namespace
    gateway = gateway_with_tokens(harness)
    harness.put(service(namespace, "web"), route(namespace, "r1", "gw"))
    give_address(harness)
    (tmp_path / "token").write_text(CI)
    options = ["--token-file", str(tmp_path / "token"), "--gateway", gateway]
    address = ["--address", f"127.0.0.1:{harness.operator.invalidation_port}"]
    until_status(harness, 200, gateway)
    with GatewayPod(harness).running() as pod:
        confirmed = {"objects": [0], "pods": [{"name": pod.name, "result": "confirmed", "objects": 0}]}
        harness.wait_for(lambda: send(harness.operator, gateway, CI) == (200, confirmed), "the pod confirms")
        assert main(["purge", *options, *address, "--tag", "a", "--route", f"{namespace}/r1"]) == 0
        assert capsys.readouterr().out == (
            f"       0  --tag a\n       0  --route {namespace}/r1\n       0  in pod {pod.name}, confirmed\n"
        )
        assert main(["purge", *options, *address, "--matching", "a.example", "("]) == 1
        assert "answered 400: targets[0].matching.pattern" in capsys.readouterr().err
    metrics = harness.operator.metrics()
    assert metrics['vgw_operator_invalidation_requests_total{code="400"}'] == 1
    assert metrics['vgw_operator_invalidations_sent_total{result="rejected"}'] >= 1


def test_tokens_of_the_secret_count_for_its_gateway_alone_and_within_their_scope(harness):
    other = {"name": "other", "token": OTHER, "namespaces": ["another"]}
    gateway = gateway_with_tokens(harness, {"name": "ci", "token": CI}, other)
    harness.gateway("second")
    with stub_pod(harness, {"objects": [3]}) as (pod, seen):
        harness.wait_for(lambda: pod.is_observed, "the operator observes the pod")
        confirmed = {"objects": [3], "pods": [{"name": pod.name, "result": "confirmed", "objects": 3}]}
        assert until_status(harness, 200, gateway) == confirmed
        assert "routes" not in seen[-1]
        assert send(harness.operator, gateway, OTHER)[0] == 200
        assert seen[-1]["namespaces"] == ["another"]
        assert send(harness.operator, gateway, OTHER, {"targets": [{"route": "shop/tea"}]})[0] == 403
        assert send(harness.operator, gateway, "no-token-of-anyone")[0] == 401
        assert send(harness.operator, gateway, None)[0] == 401
        assert send(harness.operator, f"{harness.namespace}/second", CI)[0] == 404, "it names no Secret"
        assert send(harness.operator, f"{harness.namespace}/third", CI)[0] == 404


def test_secret_that_is_changed_or_deleted_counts_and_a_mistake_is_an_event(harness):
    gateway = gateway_with_tokens(harness)
    until_status(harness, 200, gateway)
    harness.put(token_secret(harness.namespace, "purgers", {"name": "next", "token": OTHER}))
    until_status(harness, 401, gateway)
    assert send(harness.operator, gateway, OTHER)[0] == 200
    harness.put(token_secret(harness.namespace, "purgers", {"name": "next", "token": "short"}))

    def reported() -> str | None:
        send(harness.operator, gateway, OTHER)
        return harness.events().get("InvalidationTokens", {}).get("message")

    assert "key tokens.json: tokens[0].token: write 16 letters" in harness.wait_for(reported, "an Event")
    until_status(harness, 200, gateway, OTHER)  # the tokens from before count; 429 until the namespace may send again
    harness.delete("Secret", "purgers")
    until_status(harness, 401, gateway, OTHER)
    annotate(harness, "../../default/secrets/purgers")
    until_status(harness, 401, gateway, OTHER)


def test_pod_that_is_killed_before_it_confirms_is_accounted_for(harness):
    gateway = gateway_with_tokens(harness)
    until_status(harness, 200, gateway)
    answers: list[tuple[int, Document]] = []
    asking = threading.Thread(target=lambda: answers.append(send(harness.operator, gateway, CI)))
    with stub_pod(harness, {"objects": [3]}) as (alive, _):
        with stub_pod(harness, None) as (dying, asked):
            harness.wait_for(lambda: alive.is_observed and dying.is_observed, "the operator observes both pods")
            asking.start()
            harness.wait_for(lambda: asked, "the pod is asked")
        asking.join()
        status, answer = answers[0]
        assert status == 200, answer
        assert answer["objects"] == [3]
        assert results(answer) == {alive.name: "confirmed", dying.name: "gone"}


def test_operator_that_does_not_lead_answers_too(cluster, namespace, tmp_path, operators):
    put(cluster, gateway_class(namespace))
    operators.append(OperatorProcess(cluster, tmp_path, class_name=namespace).start())
    operators.append(OperatorProcess(cluster, tmp_path, class_name=namespace, name="standby").launch())
    harness = OperatorHarness(cluster, operators[0], namespace)
    gateway = gateway_with_tokens(harness)
    operators[1].await_ready()
    standby = OperatorHarness(cluster, operators[1], namespace)
    with stub_pod(harness, {"objects": [3]}) as (pod, seen):
        for one in (harness, standby):
            one.wait_for(lambda one=one: results(until_status(one, 200, gateway)), "the pod is observed")
            assert results(until_status(one, 200, gateway)) == {pod.name: "confirmed"}
        assert len({one["authorization"] for one in seen}) == 1
    assert operators[1].metrics()["vgw_operator_leading"] == 0
