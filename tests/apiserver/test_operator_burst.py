"""Very many routes at once."""

from support.kube.bulk import create_all
from support.kube.documents import gateway, gateway_class, path_of, put, route, service
from support.kube.operator_process import OperatorProcess
from support.kube.states import stored, translated
from support.waiting import until

ROUTES = 1000


def test_a_thousand_routes_at_once_cost_few_writes_of_the_gateways_status(cluster, namespace, tmp_path, operators):
    put(cluster, gateway_class(namespace), gateway(namespace, "gw", namespace), service(namespace, "tea"))
    operators.append(operator := OperatorProcess(cluster, tmp_path, class_name=namespace).start())
    operator.at_rest()
    before = operator.writes()
    backend = {"name": "tea"}
    create_all(cluster, (route(namespace, f"r{number}", "gw", backend=backend) for number in range(ROUTES)))
    path = path_of(gateway(namespace, "gw", namespace))
    until(lambda: attached(cluster.request("GET", path)) == ROUTES, "every route is counted", 60)
    operator.at_rest()
    written = {what: count - before.get(what, 0) for what, count in operator.writes().items()}
    assert written["Gateway status"] <= 100
    assert written["HTTPRoute status"] == ROUTES  # each once
    assert stored(cluster, namespace) == translated(cluster, namespace)
    assert "vgw_operator_job_failures_total" not in str(operator.metrics())


def attached(found: dict) -> int:
    return int(found["status"]["listeners"][0]["attachedRoutes"])
