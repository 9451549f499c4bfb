"""Whatever happens, an operator comes to rest, and one that begins then finds nothing to write.

A seed that fails is run again by ``pytest tests/simulation -k seed-17-``.
"""

import pytest

from support.simulation.runs import failure_of, fingerprint, processes

SEEDS = 120


@pytest.mark.parametrize("seed", range(SEEDS), ids=lambda seed: f"seed-{seed}-")
def test_operators_at_rest_leave_nothing_to_write(seed, pool):
    assert not (failure := pool.submit(failure_of, seed).result()), failure


def test_seed_reproduces_the_same_run_in_every_process(pool):
    with processes(1) as other:
        assert list(pool.map(fingerprint, range(3))) == list(other.map(fingerprint, range(3)))
