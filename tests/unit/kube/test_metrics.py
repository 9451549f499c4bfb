from varnish_gateway.kube.metrics import Metrics


def test_requests_are_counted_by_verb_kind_and_code():
    metrics = Metrics()
    metrics.answered("apply", "ConfigMap", 200, 0.5)
    metrics.answered("apply", "ConfigMap", 200, 0.25)
    metrics.answered("get", "Lease", 0, 1.0)
    metrics.objects["HTTPRoute"] += 5
    lines = list(metrics.lines())
    assert 'vgw_kube_requests_total{verb="apply",kind="ConfigMap",code="200"} 2' in lines
    assert 'vgw_kube_requests_total{verb="get",kind="Lease",code="0"} 1' in lines
    assert 'vgw_kube_request_seconds_sum{verb="apply",kind="ConfigMap"} 0.75' in lines
    assert 'vgw_kube_request_seconds_count{verb="apply",kind="ConfigMap"} 2' in lines
    assert 'vgw_kube_objects{kind="HTTPRoute"} 5' in lines


def test_every_metric_is_described_once():
    described = [line.split()[2] for line in Metrics().lines() if line.startswith("# TYPE")]
    assert len(described) == len(set(described)) > 5
