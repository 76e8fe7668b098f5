"""Mass and stretch of a schedule: against sums by hand, and where they are known."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import fedwave as fw
from fedwave.aggregation import Aggregation, Constant, FedAsync, FedBuff, Lee, uploads_of_rounds
from fedwave.learning.schedule import training_runs
from fedwave.network.partition import Labels, Partition
from fedwave.theory.useful_mass import ScheduleMass

NETWORK = fw.random_network(6, 2, seed=1, rate=[0.2, 0.5, 1, 1, 3, 5], miss_probability=0.2)
TRACE = fw.simulate(NETWORK, "age", rounds=40, instances=3, seed=4)
RULES = [Lee(0.001), Lee(1.0), Lee(0.6, cap=2.0), Constant(0.9), Constant(0.0), FedAsync(0.5)]


def by_hand(run, rule):
    """M and E of every round: each training is followed until its delivery."""
    rounds, devices = run.shards.shape
    uploads = run.uploads(rule)
    mass, stretch = np.zeros(rounds), np.zeros(rounds)
    since = [[] for _ in range(devices)]  # trainings since the last delivery: (round, shards)
    for t in range(rounds):
        a = rule.coefficients(uploads.at(t))
        for u in range(devices):
            if run.shards[t, u] > 0:
                since[u].append((t, run.shards[t, u]))
            if run.delivered[t, u]:
                mass[t] += a[u] * sum(rule.beta ** (t - s) * m for s, m in since[u])
                stretch[t] += a[u] * sum(rule.beta ** (t - s) for s, _ in since[u])
                since[u] = []
    return mass, stretch


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_every_training_counts_until_it_is_delivered(rule):
    found = ScheduleMass.of(TRACE, rule)
    for i, run in enumerate(training_runs(TRACE)):
        mass, stretch = by_hand(run, rule)
        np.testing.assert_allclose(found.delivered[:, i], mass, rtol=1e-12)
        np.testing.assert_allclose(found.stretch[:, i], stretch, rtol=1e-12)


def test_only_what_goes_beyond_the_mean_is_cut():
    found = ScheduleMass.of(TRACE, Constant(1.0))
    long = found.stretch > 1
    assert 0 < long.sum() < long.size
    np.testing.assert_array_equal(found.useful[~long], found.delivered[~long])
    np.testing.assert_allclose(found.useful[long], found.delivered[long] / found.stretch[long])


# --- label skew -----------------------------------------------------------------------------------


class Held(Partition):
    """Devices 0 and 1 hold class 0 and 1 alone; the others hold all."""

    name = "held"

    def class_shares(self, seed: int, instance: int, device: int, classes: int) -> Any:
        return np.eye(classes)[device] if device < 2 else None


def test_useful_mass_of_classes_by_hand() -> None:
    """T is what was delivered of each class, 3 times that as each is a third of the data."""
    found = ScheduleMass.of(TRACE, Constant(1.0), Labels(Held(), classes=3))
    plain = ScheduleMass.of(TRACE, Constant(1.0))
    uploads = uploads_of_rounds(Constant(1.0), TRACE.delivered, TRACE.learned, TRACE.delay, TRACE.accepted)
    each = (uploads.shares * uploads.mass / np.maximum(plain.stretch, 1)[..., None]).sum(axis=0)
    of_all = each[:, 2:].sum(axis=1, keepdims=True) / 3
    total = np.concatenate([each[:, :2] + of_all, of_all], axis=1)
    known = (3 * total / (3 * total + 100)).mean(axis=1)
    expected = 100 * known / (1 - known)
    np.testing.assert_allclose(found.useful.sum(axis=0), expected, rtol=1e-12)
    assert (found.useful >= 0).all()
    assert (found.useful.sum(axis=0) < plain.useful.sum(axis=0)).all()


def test_the_same_classes_everywhere_change_nothing() -> None:
    class Same(Partition):
        name = "same"

        def class_shares(self, seed: int, instance: int, device: int, classes: int) -> Any:
            return np.full(classes, 1 / classes)

    plain = ScheduleMass.of(TRACE, Lee()).useful
    np.testing.assert_allclose(ScheduleMass.of(TRACE, Lee(), Labels(Same(), 7)).useful, plain, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(ScheduleMass.of(TRACE, Lee(), Labels("iid")).useful, plain)
    # Classes that the whole training set has unequally often, and one that it lacks.
    unequal = Labels(Held(), 4, training=np.array([0, 0, 0, 1, 2, 2]))
    np.testing.assert_allclose(unequal.overall, [1 / 2, 1 / 6, 1 / 3, 0])
    assert unequal.shares(0, [3, 4], 3)[1].tolist()[2] == unequal.overall.tolist()
    assert np.isfinite(ScheduleMass.of(TRACE, Lee(), unequal).useful).all()


def test_a_buffer_passes_classes_on_when_it_is_full() -> None:
    found = ScheduleMass.of(TRACE, FedBuff(5), Labels(Held(), classes=3))
    assert found.by_class is not None
    np.testing.assert_allclose(found.by_class.sum(axis=-1), found.delivered, rtol=1e-12)


@dataclass(frozen=True)
class Rooted(Aggregation):
    """A server step that is not linear."""

    name = "rooted"

    def weights(self, uploads):
        return uploads.shares

    def server_step(self, memory, update, uploads):
        return memory, abs(update) ** 0.5


def test_a_server_step_that_is_not_linear_counts_once():
    """With as good as the same classes everywhere it is the mass without labels."""
    plain = ScheduleMass.of(TRACE, Rooted()).useful.sum(axis=0)
    for classes in (2, 10):
        alike = Labels("dirichlet:alpha=1e9", classes)
        found = ScheduleMass.of(TRACE, Rooted(), alike).useful.sum(axis=0)
        np.testing.assert_allclose(found, plain, rtol=1e-3)
