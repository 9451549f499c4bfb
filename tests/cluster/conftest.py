"""Fixtures of tests in a real cluster: `make cluster-test` brings it up and runs them where test clients are."""

import contextlib
import itertools
import os
from collections.abc import Iterator

import pytest

from cluster import layout
from cluster.api import Api
from support.kube.cluster_harness import ClusterHarness

_turn = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave these tests out where there is no cluster."""
    if os.environ.get("KUBECONFIG") != str(layout.ADMIN):
        for item in items:
            if "tests/cluster/" in str(item.path):
                item.add_marker(pytest.mark.skip(reason="needs a cluster: make cluster-test"))


@pytest.fixture(scope="session")
def api() -> Iterator[Api]:
    with contextlib.closing(Api()) as api:
        yield api


@pytest.fixture
def harness(api: Api) -> Iterator[ClusterHarness]:
    """Have a namespace."""
    name = f"test-{os.getpid()}-{next(_turn)}"
    with ClusterHarness.in_namespace(api, name) as harness:
        yield harness
