"""docs/reference/metrics.md names every metric that the code writes, with its type and labels, and no other."""

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from varnish_gateway.chaperone.feeds.cluster import ClusterFeed
from varnish_gateway.dataplane.change import ServingState
from varnish_gateway.dataplane.ghost.metrics import CachedRoutes, eviction_lines
from varnish_gateway.dataplane.metrics import EventCounters
from varnish_gateway.dataplane.metrics import page as chaperone_page
from varnish_gateway.dataplane.tls import metrics as tls
from varnish_gateway.dataplane.tls.expiry import CertificateExpiry
from varnish_gateway.dataplane.varnish.metrics import cache_lines
from varnish_gateway.kube.metrics import Metrics
from varnish_gateway.operator.execute.queue import Queue
from varnish_gateway.operator.leadership import AlwaysLeading
from varnish_gateway.operator.metrics import MetricSources
from varnish_gateway.operator.metrics import page as operator_page
from varnish_gateway.standalone.health import lines_of_files
from varnish_gateway.translate.gateway.parameter_use import ParameterUse

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text()
SERVED = ServingState(
    ready=True, reason="", configuration="", vcl="", generation="", sockets=(), up_to_date=True, problems=()
)
COUNTS = {
    "requests": 1,
    "hits": 0,
    "misses": 1,
    "passes": 0,
    "loops": 0,
    "rejections": 0,
    "status": {"2xx": 1},
    "latency": {"buckets": [{"le": 0.001, "count": 1}], "count": 1, "sum": 0.5},
    "cache": {
        "default/pages": {
            "requests": {"hit": 1},
            "stored": 1,
            "revalidated": 0,
            "uncacheable": {"private": 1},
            "bytes": {"cache": 1, "origin": 1},
        }
    },
}


def kube() -> Metrics:
    """Return the client's counters, each of them used."""
    metrics = Metrics()
    metrics.answered("get", "Lease", 200, 0.1)
    for counter in (metrics.retries, metrics.watch_restarts, metrics.relists, metrics.objects, metrics.undecodable):
        counter["Lease"] += 1
    return metrics


def of_a_pod() -> str:
    ghost = {"routes": {"default/tea": COUNTS}, "unrouted": {}, "overBudget": 1, "rejections": {"route": 1}}
    ghost["purges"] = {"done": 1}
    ghost["index"] = {"objects": 1, "refused": {"index-full": 1}}
    evicted = {"evicted": COUNTS["latency"]}
    feed = SimpleNamespace(_away_since=None, _watches=(), _client=SimpleNamespace(metrics=kube()))
    counters = {"MAIN.n_object", "MAIN.n_expired", "MAIN.n_lru_nuked", "MAIN.n_lru_limited"}
    counters |= {f"SMA.s0.{field}" for field in ("g_bytes", "g_space", "c_fail")}
    cache = cache_lines(dict.fromkeys(counters, 1))
    of_tls = tls.lines([{"pxname": "https-443"}], [CertificateExpiry(443, "a", 0.0)])
    of_ghost = (*CachedRoutes(1).lines(ghost), *eviction_lines(evicted))
    more = (*of_ghost, *cache, *of_tls, *ClusterFeed.metrics(feed))
    return chaperone_page(EventCounters(), SERVED, ghost) + "".join(f"{line}\n" for line in more)


def of_an_operator() -> str:
    sources = MetricSources(
        kube=kube(),
        queue=Queue(),
        reconciler=SimpleNamespace(
            gateways={}, faults={}, postponed={}, parameters=ParameterUse(), invalidations=SimpleNamespace(unfinished=0)
        ),
        writer=SimpleNamespace(counts={("Service", "apply"): 1}),
        workers=SimpleNamespace(is_running=False, failures={"Conflict": 1}),
        compiler=(),
        leadership=AlwaysLeading(),
        invalidations=SimpleNamespace(counts=Counter(confirmed=1)),
        address=SimpleNamespace(answers=Counter(unanswered=1), statuses={200: 1}),
    )
    return operator_page(sources)


def of_files() -> str:
    serving = SimpleNamespace(rejections=1, is_up_to_date=True, invalidations=SimpleNamespace(phases={"Complete": 1}))
    return "".join(f"{line}\n" for line in lines_of_files(serving))


def written(text: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Return the metrics of a page by name, each with its type and its labels."""
    found = {}
    for name, kind, samples in re.findall(r"^# TYPE (\S+) (\S+)\n((?:(?!#).*\n)*)", text, re.MULTILINE):
        assert samples, f"{name} has no sample to tell its labels by"
        found[name] = kind, frozenset(re.findall(r'[{,](\w+)="', samples))
    return found


def named() -> dict[str, tuple[str, frozenset[str]]]:
    """Return the metrics of the tables."""
    rows = re.findall(r"^\| `(vgw_\w+)` \| (\w+) \| ([^|]*?) ?\| .+ \|$", PAGE, re.MULTILINE)
    assert len({name for name, _, _ in rows}) == len(rows)
    return {name: (kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def test_every_metric_is_named_with_type_and_labels_and_no_other():
    assert named() == written(of_files()) | written(of_a_pod()) | written(of_an_operator())


@pytest.mark.parametrize(("part", "text"), [("Gateway pods", of_a_pod()), ("Operator", of_an_operator())])
def test_a_metric_is_named_where_it_is_written(part, text):
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
    client = sections["The Kubernetes client"]
    assert {name for name in named() if f"`{name}`" in sections[part] + client} >= set(written(text))
    assert {name for name in written(text) if f"`{name}`" in client} == set(written("\n".join(kube().lines()) + "\n"))


def test_other_words_of_the_page_are_metrics_too():
    histograms = [name for name, (kind, _) in named().items() if kind == "histogram"]
    parts = {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}
    assert set(re.findall(r"\bvgw_\w+", PAGE)) <= named().keys() | parts


def test_alerts_are_rules_of_prometheus():
    (block,) = re.findall(r"^```yaml\n(groups:.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (group,) = yaml.safe_load(block)["groups"]
    assert len(group["rules"]) == 6
    for rule in group["rules"]:
        assert {"alert", "expr"} <= rule.keys() <= {"alert", "expr", "for", "annotations"}
        assert "vgw_" in rule["expr"]
