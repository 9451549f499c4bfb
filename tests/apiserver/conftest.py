"""Fixtures of all tests with a real API server.

Helpers, from the bottom up (tests/support/kube unless named otherwise):
cluster.apiserver          etcd and kube-apiserver with the CRDs (tools/cluster)
documents, bulk            objects that tests create, by the thousand if need be
mirror                     a reflector and the objects that it delivered
chaperone_process          ``vgw chaperone`` under its own ServiceAccount
operator_process           ``vgw operator`` under its own ServiceAccount
operator_harness           a namespace that an operator watches: write, read, wait
gateway_pod                a pod object with a chaperone behind it
gateway_status, gateway_tls  what tests read of a Gateway's status and certificates
states, convergence        what the cluster stores, compared with a translation from scratch
churn                      random changes

Most tests share one ``cluster`` and have a ``namespace`` each. A test that kills the API server,
pauses it, or takes a CRD away has an ``own_cluster``. The tests of a module may share one
``operator``; each has a ``harness`` in a namespace of its own, and the class without parameters.
"""

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from cluster.apiserver.server import Cluster
from support.kube.documents import gateway_class, put
from support.kube.operator_harness import OperatorHarness
from support.kube.operator_process import OperatorProcess
from support.kube.pods.chaperone_process import ProvisionedGateway
from varnish_gateway.kube.client import Client

_turn = itertools.count(1)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster")).start()
    yield cluster
    cluster.stop()


@pytest.fixture
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("own")).start()
    yield cluster
    cluster.stop()


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    name = f"test-{next(_turn)}"
    cluster.create_namespace(name)
    yield name
    cluster.clear_namespace(name)


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with cluster.client() as client:
        yield client


@pytest.fixture(scope="module")
def operator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    """Have an operator for all tests of a module, with a class of its own."""
    name = f"class-{next(_turn)}"
    put(cluster, gateway_class(name))
    operator = OperatorProcess(cluster, tmp_path_factory.mktemp("operator"), class_name=name).start()
    yield operator
    operator.stop()


@pytest.fixture
def operators() -> Iterator[list[OperatorProcess]]:
    """Have a list for operators of a test: those that are in it are ended after the test."""
    operators: list[OperatorProcess] = []
    yield operators
    for operator in operators:
        operator.kill()


@pytest.fixture
def harness(cluster: Cluster, operator: OperatorProcess, namespace: str) -> Iterator[OperatorHarness]:
    """Have a namespace for the operator."""
    yield OperatorHarness(cluster, operator, namespace)
    put(cluster, gateway_class(operator.class_name))


# -- for chaperones --------------------------------------------------------------------------------


@pytest.fixture
def gateway(cluster: Cluster, namespace: str) -> ProvisionedGateway:
    """Give a Gateway as its chaperone sees it."""
    return ProvisionedGateway(cluster, namespace)


@pytest.fixture
def other(cluster: Cluster, namespace: str) -> Iterator[str]:
    """Give another namespace, which the chaperone may not read yet."""
    name = f"{namespace}-other"
    cluster.create_namespace(name)
    yield name
    cluster.clear_namespace(name)
