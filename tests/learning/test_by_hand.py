"""Seven rounds of two devices, worked out on paper, against the reference trainer and against the lanes.

**The model.** One weight w. For an image that holds the number x it answers with class probabilities e^-s, e^-s and
1 - 2e^-s, where s = 1 + (w - x)^2 / 2. So the cross-entropy of label 0 or 1 is s, and its gradient is w - x.

**The data.** Device A holds only label 0, whose images are all 4; device B only label 1, whose images are all -8.
Which samples are drawn, and in what order, makes no difference.

**Local training.** eta = 1/4, prox = 1. From the start s, with a the device's number and y = w - s, a step is

    y <- y - 1/4 * ((y + s - a) + 1 * y) = y/2 - (s - a)/4,   so after k steps   y = -(1 - 2^-k) (s - a) / 2.

Shards of 2 samples, batches of 2, E = 2 epochs: m shards make k = 2m steps, and g = -y / eta = 2 (1 - 4^-m) (s - a):

    m = 1: g = 3/2 (s - a)        m = 2: g = 15/8 (s - a)        and the device is left with s - g/4.

**The rounds.** beta = 1/2, w = 0 at the start.

1.  Nothing arrives. A delivers nothing, so sum N = 0: no update. B's upload fails. w = 0.
2.  m = (1, 2). A: g = 3/2 (0 - 4) = -6 = psi. B: g = 15/8 (0 + 8) = 15 = psi, and B is left with -15/4.
    A's upload fails, B is not scheduled: still no N, no update. w = 0.
3.  m = (2, 0). A: g = 15/8 (0 - 4) = -15/2, psi = -15/2 + 1/2 (-6) = -21/2. B misses w; psi = 15/2.
    A delivers with d = 2 (ln 2 < 1): N = (3, 0), c_A = 1, w = 0 + 1/4 * 21/2 = 21/8.
4.  m = (0, 1). A hears w = 21/8 and delivers nothing (psi was reset): no change, but its d is 1 again.
    B misses w again and starts where it stopped: g = 3/2 (-15/4 + 8) = 51/8, psi = 51/8 + 1/2 * 15/2 = 81/8.
    B's upload fails. w = 21/8.
5.  m = (0, 0). A misses w. B: psi = 81/16; it delivers with d = 5: N = (3, 3), c_B = 1/2,
    w = 21/8 - 1/2 * 1/4 * ln 5 * 81/16 = 21/8 - 81/128 ln 5. Call it v.
6.  m = (1, 2). A misses w and starts from what it heard in round 4, after its last training:
    g = 3/2 (21/8 - 4) = -33/16 = psi. Its upload fails.
    B: g = 15/8 (v + 8), and B is left with r = v - 15/32 (v + 8) = 17/32 v - 15/4.
    B delivers with d = 1: N = (3, 5), c_B = 5/8, w = v - 5/8 * 1/4 * 15/8 (v + 8) = v - 75/256 (v + 8).
7.  m = (0, 1). A: psi = -33/32; it delivers with d = 3. B misses w: g = 3/2 (r + 8); it delivers with d = 1.
    N = (4, 6): c = (2/5, 3/5), w = w + 2/5 * 1/4 * ln 3 * 33/32 - 3/5 * 1/4 * 3/2 (r + 8).
"""

from __future__ import annotations

from dataclasses import replace
from math import log, sqrt
from typing import Any

import numpy as np
import pytest
import torch
from states import states
from tiny import blobs, linear, trace
from torch import Tensor, nn

import fedwave as fw
from fedwave.aggregation import Aggregation, FedAsync, FedBuff, Lee, Sync
from fedwave.learning.datasets.dataset import Dataset
from fedwave.learning.evaluation import EvaluationSizes, Evaluator, Tensors
from fedwave.learning.reference import train_run
from fedwave.learning.replay import Replay
from fedwave.learning.schedule import TrainingRun, training_runs
from fedwave.learning.settings import Settings
from fedwave.learning.task import Task
from fedwave.network.partition import Partition

V = 21 / 8 - 81 / 128 * log(5)
R = 17 / 32 * V - 15 / 4
W6 = V - 75 / 256 * (V + 8)
W7 = W6 + 33 / 320 * log(3) - 9 / 40 * (R + 8)
CENTRAL = [0, 0, 21 / 8, 21 / 8, V, W6, W7]

ARRIVALS = [[0, 0], [1, 2], [2, 0], [0, 1], [0, 0], [1, 2], [0, 1]]
SCHEDULED = [[1, 1], [1, 0], [1, 0], [1, 1], [0, 1], [1, 1], [1, 1]]
DELIVERED = [[1, 0], [0, 0], [1, 0], [1, 0], [0, 1], [0, 1], [1, 1]]
HEARD = [[1, 1], [1, 1], [1, 0], [1, 0], [0, 1], [0, 1], [1, 0]]

SIZES = EvaluationSizes(4, 4)


class Parabola(nn.Module):
    """The cross-entropy of label 0 or 1 is 1 + (w - x)^2 / 2."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(()))

    def forward(self, images: Tensor) -> Tensor:
        s = 1 + (self.w - images.flatten()) ** 2 / 2
        return torch.stack([-s, -s, torch.log1p(-2 * torch.exp(-s))], dim=1)


class OwnLabel(Partition):
    """Device u holds label u and nothing else."""

    name = "own-label"

    def class_shares(self, seed: int, instance: int, device: int, classes: int) -> Any:
        return np.eye(classes)[device]


def two_numbers() -> Dataset:
    labels = np.array([0, 1] * 5)
    images = np.where(labels == 0, 4.0, -8.0)[:, None, None, None]
    return Dataset("two numbers", images, labels, images, labels)


def by_hand(**numbers: Any) -> tuple[TrainingRun, Task]:
    (run,) = training_runs(trace(ARRIVALS, DELIVERED, scheduled=SCHEDULED, heard=HEARD))
    usual = {"shard_size": 2, "batch": 2, "epochs": 2, "eta": 0.25, "aggregation": Lee(0.5), "prox": 1.0}
    return run, Task(two_numbers(), Parabola, partition=OwnLabel(), **(usual | numbers))


class Watching(Evaluator):
    """Writes down the parameters and buffers that it is to judge: the central ones after each round."""

    def __init__(self, task: Task) -> None:
        super().__init__(task, SIZES, torch.device("cpu"), torch.float64)
        self.seen: list[Tensors] = []

    def __call__(self, model: nn.Module, parameters: Tensors, buffers: Tensors, *, full: bool) -> Any:
        self.seen.append({k: p.clone() for k, p in (parameters | buffers).items()})
        return super().__call__(model, parameters, buffers, full=full)


def reference(run: TrainingRun, task: Task) -> list[Tensors]:
    evaluator = Watching(task)
    train_run(run, task, evaluator, torch.float64)
    return evaluator.seen


def lanes(run: TrainingRun, task: Task, **settings: Any) -> list[Tensors]:
    replay = Replay([run], task, Settings(precision="float64", **settings), SIZES)
    seen = []
    for _ in range(run.rounds):
        replay.advance()
        seen.append(states(replay)[0].w | states(replay)[0].buffers)
    return seen


TRAINERS = {
    "reference": (reference, {}),
    "lanes": (lanes, {"tolerance": 0.0}),
    "lanes, one at a time": (lanes, {"tolerance": 0.0, "lanes": 1}),
    "lanes, tolerance": (lanes, {"tolerance": 1e-6}),
}


def assert_central(trainer: str, run: TrainingRun, task: Task, expected: list[float]) -> None:
    """The central parameter after every round."""
    train, settings = TRAINERS[trainer]
    found = [float(state["w"]) for state in train(run, task, **settings)]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_central_parameters_after_every_round(trainer: str) -> None:
    assert_central(trainer, *by_hand(), CENTRAL)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_longer_local_training_and_other_numbers(trainer: str) -> None:
    """Round 3 alone, with E = 3, prox = 0, l2 = 1 and beta = 0.

    A step from 0 is w <- w - 1/4 ((w - 4) + w) = w/2 + 1. A's two shards in batches of 3: of 4 samples 3 make a batch
    and the one that is left is dropped, so there is one step an epoch: 1, 3/2, 7/4. g = -4 * 7/4 = -7, c = 1, w = 7/4.
    """
    _, task = by_hand(epochs=3, prox=0.0, l2=1.0, aggregation=Lee(0.0), batch=3)
    (run,) = training_runs(trace([[1, 2], [2, 0]], [[0, 0], [1, 0]]))
    assert_central(trainer, run, task, [0, 7 / 4])


@pytest.mark.parametrize("trainer", TRAINERS)
def test_synchronous_devices_train_when_scheduled_on_all_that_waits(trainer: str) -> None:
    """A alone; beta and ln d play no part.

    1.  m = 1, not scheduled: the shard waits.   2.  m = 1, scheduled, but the upload fails: both shards wait.
    3.  m = 0, delivered: g = 15/8 (0 - 4) on two shards, c = 1, w = 15/8.
    4.  m = 0, delivered: nothing waits any more.   5.  m = 1, delivered: w = 15/8 - 1/4 * 3/2 (15/8 - 4).
    """
    _, task = by_hand()
    scheduled, delivered = [[0], [1], [1], [1], [1]], [[0], [0], [1], [1], [1]]
    (run,) = training_runs(trace([[1], [1], [0], [0], [1]], delivered, scheduled=scheduled))
    assert_central(trainer, run, replace(task, aggregation=Sync()), [0, 0, 15 / 8, 15 / 8, 15 / 8 + 51 / 64])


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize(("cap", "w"), [(0.5, 0.525), (1.25, 1.3125), (2.5, 2.625), (9, 2.625)])
def test_a_cap_on_the_step_of_a_round(cap: float, w: float, trainer: str) -> None:
    """A: x = 1 and psi = -6, then x = 2 + 1/2 and psi = -15/2 - 3 = -21/2. It delivers with a = c = 1: M = 5/2."""
    _, task = by_hand(aggregation=Lee(0.5, cap=cap))
    (run,) = training_runs(trace([[1, 2], [2, 0]], [[0, 0], [1, 0]]))
    assert_central(trainer, run, task, [0, w])


STALE = {"constant": (1, 1), "hinge": (2, 1 / 3), "polynomial": (2, 1 / 9)}  # a and s(2) with b = 1


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("staleness", STALE)
def test_fedasync(staleness: str, trainer: str) -> None:
    """alpha = 1/2, b = 1.

    1.  m = (1, 2). A: g = -6. B: g = 15, delivered alone with d = 1: w = -1/4 * 1/2 * 15 = -15/8.
    2.  Nothing arrives, nothing is delivered.
    3.  m = (1, 0). A: g = 3/2 (-15/8 - 4) = -141/16, psi = -6 - 141/16 = -237/16, delivered with d = 3. B delivers
        nothing, but counts: w = -15/8 + 1/4 * 1/2 * s(2) / 2 * 237/16.
    """
    a, s = STALE[staleness]
    _, task = by_hand(aggregation=FedAsync(0.5, staleness, a=a, b=1))
    (run,) = training_runs(trace([[1, 2], [0, 0], [1, 0]], [[0, 1], [0, 0], [1, 1]]))
    expected = [-15 / 8, -15 / 8, -15 / 8 + 237 * s / 256]
    assert_central(trainer, run, task, expected)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_fedbuff(trainer: str) -> None:
    """Room for 3.

    1.  m = (1, 2). A: g = -6. B: g = 15. A delivers with d = 1: the buffer holds -6.
    2.  m = (1, 0). A: psi = -6. B delivers 15 with d = 2: the buffer holds -6 + 15 / sqrt 2.
    3.  m = (0, 1). B: g = 3/2 * 8 = 12. A delivers -6 with d = 2 and B 12 with d = 1: 4 uploads, which is enough,
        w = -1/4 * (-6 + 15 / sqrt 2 - 6 / sqrt 2 + 12) / 4.
    4.  m = (1, 0). A delivers: 1 upload in the buffer, and w stays.
    """
    _, task = by_hand(aggregation=FedBuff(3))
    delivered = [[1, 0], [0, 1], [1, 1], [1, 0]]
    (run,) = training_runs(trace([[1, 2], [1, 0], [0, 1], [1, 0]], delivered))
    w = -(6 + 9 / sqrt(2)) / 16
    assert_central(trainer, run, task, [0, 0, w, w])


class OnlyStatistics(nn.Module):
    """Batch norm without weights of its own; only its running statistics are looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(1, affine=False)
        self.out = nn.Linear(1, 3)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.out(self.norm(images.flatten(1)))
        return logits


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("rule", [Lee(0.5), FedAsync(0.1), FedBuff(9), Lee(cap=0.01)], ids=str)
def test_running_statistics_bypass_psi_and_the_rule(trainer: str, rule: Aggregation) -> None:
    """Momentum 0.1: after k steps on images that are all a, the mean is .9^k b + (1 - .9^k) a, the variance .9^k v.

    One epoch, so k = m. A: a = 4, B: a = -8. At the start mean 0 and variance 1.

    1.  m = (1, 1), nobody delivers. B is left with mean -.8 and variance .9.
    2.  m = (2, 0). Both deliver (d = 2), N = (3, 1). A: mean .19 * 4 = .76, variance .81, c = 3/4. B has trained on
        nothing: it is skipped. Mean 3/4 * .76 = .57, variance 1 + 3/4 (.81 - 1) = .8575.
    3.  m = (0, 1). B alone delivers, N = (3, 2), c = 2/5, from mean .57: .513 - .8 = -.287, variance .77175.
        Mean .57 + 2/5 (-.287 - .57) = .2272, variance .8575 + 2/5 (.77175 - .8575) = .8232.
    """
    _, task = by_hand(epochs=1, aggregation=rule)
    task = replace(task, model=OnlyStatistics)
    (run,) = training_runs(trace([[1, 1], [2, 0], [0, 1]], [[0, 0], [1, 1], [0, 1]]))
    train, settings = TRAINERS[trainer]
    seen = train(run, task, **settings)
    means = [float(state["norm.running_mean"]) for state in seen]
    variances = [float(state["norm.running_var"]) for state in seen]
    np.testing.assert_allclose(means, [0, 0.57, 0.2272], rtol=0, atol=1e-12)
    np.testing.assert_allclose(variances, [1, 0.8575, 0.8232], rtol=0, atol=1e-12)
    assert [int(state["norm.num_batches_tracked"]) for state in seen] == [0, 2, 3]


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_missed_broadcast_keeps_the_own_running_statistics(trainer: str) -> None:
    """As above with A alone, which misses the second broadcast.

    1.  m = 1, not delivered: A is left with mean .4 and variance .9; the central ones are still 0 and 1.
    2.  m = 1, delivered, c = 1: from its own, mean .36 + .4 = .76, variance .81.
    """
    _, task = by_hand(epochs=1)
    task = replace(task, model=OnlyStatistics)
    (run,) = training_runs(trace([[1], [1]], [[0], [1]], heard=[[1], [0]]))
    train, settings = TRAINERS[trainer]
    seen = train(run, task, **settings)
    assert float(seen[1]["norm.running_mean"]) == pytest.approx(0.76, abs=1e-12)
    assert float(seen[1]["norm.running_var"]) == pytest.approx(0.81, abs=1e-12)


def test_the_loss_has_the_precision_of_the_run() -> None:
    """A float64 run must not round its loss to float32."""
    task = Task(blobs(), linear, epochs=1)
    played = fw.simulate(fw.random_network(3, 1, rate=2.0), "alsa-pi", 2, 1)
    loss = fw.train(played, task, precision="float64").loss
    assert (loss != loss.astype("float32")).all()
