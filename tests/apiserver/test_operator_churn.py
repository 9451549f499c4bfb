"""Few names that come and go all the time: what is gone is often there again before the operator hears of it."""

import os
import random
import signal

import pytest

from support.kube.churn import FEW, Churn
from support.kube.convergence import assert_converged, assert_nothing_left_to_write
from support.kube.operator_process import OperatorProcess

CHANGES = 250
SPELL = 30
"""So many changes at most come to an operator that is held still, and are heard of at once."""


@pytest.mark.parametrize("seed", [104, 106, 109])
def test_churn_converges_to_the_translated_state(cluster, tmp_path, operators, seed):
    class_name = f"churn-{seed}"
    mixture, chance = Churn(cluster, class_name, seed, FEW), random.Random(seed)
    mixture.begin()
    operators.append(operator := OperatorProcess(cluster, tmp_path, class_name=class_name).start())
    made = 0
    while made < CHANGES:
        os.kill(operator.pid, chance.choice((signal.SIGSTOP, signal.SIGCONT)))
        for _ in range(spell := chance.randrange(1, SPELL)):
            mixture.change()
        made += spell
    os.kill(operator.pid, signal.SIGCONT)
    mixture.put_gateways()
    assert_converged(cluster, class_name, operator)
    operator.stop()
    assert_nothing_left_to_write(cluster, class_name, tmp_path, operators)
    mixture.end()
