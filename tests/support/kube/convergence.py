"""Whether an operator has done all that there was to do."""

from pathlib import Path

from cluster.apiserver.server import Cluster
from support.kube.operator_process import OperatorProcess
from support.kube.states import is_as_translated, stored, translated, versions
from support.waiting import until


def assert_converged(cluster: Cluster, class_name: str, operator: OperatorProcess) -> None:
    """Wait until the stored objects equal a translation from scratch; show the difference if they never do."""
    try:
        until(lambda: is_as_translated(cluster, class_name), "what is stored is what is translated", 30)
    except AssertionError:
        assert stored(cluster, class_name) == translated(cluster, class_name), operator.last_words()
    operator.at_rest()


def assert_nothing_left_to_write(
    cluster: Cluster, class_name: str, directory: Path, operators: list[OperatorProcess]
) -> None:
    before = versions(cluster)
    operators.append(OperatorProcess(cluster, directory, class_name=class_name, name="fresh").start())
    assert operators[-1].at_rest().writes() == {}
    assert versions(cluster) == before
    operators[-1].stop()
