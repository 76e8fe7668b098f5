"""The bound lies below the exact optimum, on networks small enough to solve and drawn at random."""

from __future__ import annotations

import numpy as np
import pytest

import fedwave as fw
from fedwave.network.devices import DeviceTable
from fedwave.paper.regret import LevelFading
from fedwave.theory.bound import backlog_bound
from fedwave.theory.exact_problem import exact_problem
from fedwave.theory.policy_value import value_iteration


def drawn(seed: int) -> fw.Network:
    rng = np.random.default_rng(seed)
    devices = 3 if seed % 10 == 0 else 2
    gains = tuple(rng.uniform(0.3, 2.0, int(rng.integers(1, 3))).tolist())
    most = 3.0 if devices == 2 else 0.6  # three devices with long backlogs would take minutes to solve
    table = DeviceTable(rate=rng.uniform(0.1, most, devices), distance_m=rng.uniform(150.0, 400.0, devices))
    families = (fw.arrivals.Poisson(), fw.arrivals.NegativeBinomial(dispersion=2.0))
    arrivals = families[int(rng.integers(2))] if devices == 2 else families[0]
    slots = int(rng.integers(1, devices))
    return fw.Network(table, slots, fading=LevelFading(gains), success=fw.success.Soft(), arrivals=arrivals)


@pytest.mark.parametrize("seed", range(0, 50, 2))
def test_no_bound_exceeds_the_optimum(seed: int) -> None:
    network = drawn(seed)
    levels = len(network.fading.levels)  # type: ignore[attr-defined]
    best = value_iteration(exact_problem(network, levels=levels), 1e-6)
    bound = backlog_bound(network)
    assert bound.value <= best.backlog + best.error + 1e-6
    # And it says something: the optimum of so few devices is not far above it.
    assert bound.value > 0.5 * best.backlog
