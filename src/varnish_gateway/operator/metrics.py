"""The operator's metrics, in Prometheus' text format."""

from collections.abc import Iterator
from typing import NamedTuple

from varnish_gateway.kube.metrics import Metrics
from varnish_gateway.operator.address.page import AddressPage
from varnish_gateway.operator.execute.invalidations import InvalidationExecutor
from varnish_gateway.operator.execute.queue import Queue
from varnish_gateway.operator.execute.workers import Workers
from varnish_gateway.operator.execute.writer import Writer
from varnish_gateway.operator.leadership import Leadership
from varnish_gateway.operator.plan.jobs import Job
from varnish_gateway.operator.plan.reconciler import Reconciler
from varnish_gateway.runtime.match_compiler import MatchCompiler
from varnish_gateway.runtime.prometheus import family


class MetricSources(NamedTuple):
    """Everything that counts something."""

    kube: Metrics
    queue: Queue[Job]
    reconciler: Reconciler
    writer: Writer
    workers: Workers
    leadership: Leadership
    compiler: MatchCompiler
    invalidations: InvalidationExecutor
    address: AddressPage


def page(sources: MetricSources) -> str:
    """Return the page for /metrics."""
    return "\n".join((*_lines(sources), *sources.kube.lines())) + "\n"


def _lines(sources: MetricSources) -> Iterator[str]:
    name = "vgw_operator_"
    yield from _gauge(f"{name}leading", "1 while this operator leads.", int(sources.leadership.holds()))
    yield from _gauge(f"{name}working", "1 while executors run.", int(sources.workers.is_running))
    yield from _gauge(f"{name}idle", "1 while no job waits or runs.", int(sources.queue.is_idle))
    yield from _gauge(f"{name}jobs_waiting", "Jobs in the queue.", len(sources.queue))
    yield from _gauge(
        f"{name}jobs_later", "Jobs with a delay: retries, and the next probe of the pods.", sources.queue.delayed
    )
    yield from _gauge(f"{name}gateways", "Gateways that this operator serves.", len(sources.reconciler.gateways))
    yield from _gauge(
        f"{name}uncompiled",
        "Routes and cache policies whose newest version waits until its patterns are compiled.",
        len(sources.compiler),
    )
    faulty = sum(bool(faults) for faults in sources.reconciler.faults.values())
    yield from _gauge(f"{name}gateways_at_fault", "Gateways with objects that could not be applied.", faulty)
    pending = sum(postponed.has_ports for postponed in sources.reconciler.postponed.values())
    help_text = "Gateways with ports of ListenerSets that wait to be opened, because ports changed too often."
    yield from _gauge(f"{name}port_changes_pending", help_text, pending)
    unreferenced = len(sources.reconciler.parameters.unreferenced)
    help_text = "GatewayClassParameters that no GatewayClass references."
    yield from _gauge(f"{name}parameters_unreferenced", help_text, unreferenced)
    unfinished = sources.reconciler.invalidations.unfinished
    yield from _gauge(
        f"{name}invalidations_unfinished", "VarnishCacheInvalidations whose phase has not ended.", unfinished
    )
    answers = sources.invalidations.counts + sources.address.answers
    sent = [({"result": result}, count) for result, count in sorted(answers.items())]
    help_text = "Invalidations sent to pods, by what became of them."
    yield from family(f"{name}invalidations_sent_total", "counter", help_text, sent)
    statuses = [({"code": str(code)}, count) for code, count in sorted(sources.address.statuses.items())]
    help_text = "Invalidations that clients sent to the address of a Gateway, by the status of the response."
    yield from family(f"{name}invalidation_requests_total", "counter", help_text, statuses)
    writes = [({"kind": kind, "verb": verb}, count) for (kind, verb), count in sorted(sources.writer.counts.items())]
    yield from family(f"{name}writes_total", "counter", "Writes by kind and verb.", writes)
    failures = [({"error": error}, count) for error, count in sorted(sources.workers.failures.items())]
    yield from family(f"{name}job_failures_total", "counter", "Jobs that failed and are retried.", failures)


def _gauge(name: str, help_text: str, value: float) -> Iterator[str]:
    return family(name, "gauge", help_text, [({}, value)])
