"""The test problem of Theorem 1: logistic regression on the devices of a small network.

Device u holds K samples; its loss is mean cross-entropy + (l2/2) |w|^2, and l is the mean over devices. In every round
it computes one full-batch gradient at the central model (a proximal term would be 0). The shards that arrive only
determine the counts in c. psi, d, c and the rate follow the paper.

The assumptions of the theorem hold because of the following:

* The devices share their minimiser, because every psi_u must be 0 where the gradient of l is 0. With ``common`` the
  labels are shares in [0, 1] that put every device's minimiser at one w*. Without it they are classes drawn from a
  different model at each device, and the assumptions fail.
* At least one shard arrives at every device in every round. Otherwise psi may be 0, and no eps > 0 exists.
* Channels do not fade, so that the success probability of every upload is known, and zeta with it.
* Training starts after ``settle`` rounds, when no c is near 1 any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import fedwave as fw
from fedwave.paper import Counts, Flags, Floats

_LONGEST, _REACH = 2.0, 0.5  # of features and of w*: so short that no label leaves [0, 1]


@dataclass(frozen=True, eq=False)
class LogisticLoss:
    """l2-regularised logistic regression on several devices; l is the mean of their losses."""

    features: Floats  # [U, K, F]
    labels: Floats  # [U, K] chances of class 1
    l2: float

    @cached_property
    def smoothness(self) -> float:
        """L: the Hessian is largest at w = 0, where it is the mean of x x' / 4, plus l2."""
        return float(np.linalg.eigvalsh(self.hessian(np.zeros(self.features.shape[2])))[-1])

    @property
    def convexity(self) -> float:
        """xi: far from 0 all chances are 0 or 1, and l2 is all that is left of the Hessian."""
        return self.l2

    def value(self, w: Floats) -> Floats:
        """The loss at ``w`` ``[..., F]``."""
        z = self._scores(w)
        loss = (np.logaddexp(0, z) - self.labels * z).mean(axis=(-2, -1))
        out: Floats = loss + self.l2 / 2 * (w**2).sum(axis=-1)
        return out

    def gradients(self, w: Floats) -> Floats:
        """The gradient of every device's own loss, ``[..., U, F]``."""
        wrong = _chance(self._scores(w)) - self.labels
        own = np.einsum("...uk,ukf->...uf", wrong, self.features) / self.labels.shape[1]
        out: Floats = own + self.l2 * w[..., None, :]
        return out

    def hessian(self, w: Floats) -> Floats:
        """The Hessian of l at ``w`` ``[F]``."""
        chance = _chance(self._scores(w))
        weight = chance * (1 - chance) / self.labels.size
        out: Floats = np.einsum("uk,ukf,ukg->fg", weight, self.features, self.features)
        return out + self.l2 * np.eye(w.size)

    @cached_property
    def minimiser(self) -> Floats:
        """w*, by Newton steps from 0."""
        w = np.zeros(self.features.shape[2])
        for _ in range(50):
            w = w - np.linalg.solve(self.hessian(w), self.gradients(w).mean(axis=0))
        return w

    def _scores(self, w: Floats) -> Floats:
        out: Floats = np.einsum("ukf,...f->...uk", self.features, w)
        return out


@dataclass(frozen=True)
class ConvergenceSetting:
    """A network and a learning problem; ``eta`` None takes half of the corrected step limit at the first model."""

    devices: int = 6
    slots: int = 2
    rounds: int = 200
    instances: int = 20
    settle: int = 10
    samples: int = 50
    features: int = 4
    l2: float = 0.1
    beta: float = 0.001
    common: bool = True
    eta: float | None = None
    scheduler: str = "alsa-pi"
    seed: int = 0

    @property
    def aggregation(self) -> fw.aggregation.Lee:
        """The rule that the theorem is about."""
        return fw.aggregation.Lee(self.beta)

    def loss(self) -> LogisticLoss:
        """The loss on data that are drawn by ``seed``."""
        rng = np.random.default_rng([self.seed, 0])
        x = rng.standard_normal((self.devices, self.samples, self.features))
        # Unequal features: along the weakest, little more than l2 is left of the curvature, so that xi matters.
        lengths = _LONGEST * np.geomspace(1, 0.3, self.features)
        x *= lengths / np.linalg.norm(x, axis=-1, keepdims=True)
        w = rng.standard_normal((self.devices, self.features))
        w *= _REACH / np.linalg.norm(w, axis=-1, keepdims=True)
        if not self.common:
            drawn = rng.random(x.shape[:2]) < _chance(np.einsum("ukf,uf->uk", x, 4 * w))
            return LogisticLoss(x, drawn.astype(np.float64), self.l2)
        # Least squares: the labels nearest to the chances at w* that make w* this device's minimiser.
        pull = np.stack([features @ np.linalg.solve(features.T @ features, w[0]) for features in x])
        labels = _chance(x @ w[0]) + self.l2 * self.samples * pull
        assert 0 <= labels.min() <= labels.max() <= 1, "too few samples for labels with a common minimiser"
        return LogisticLoss(x, labels, self.l2)

    def network(self) -> fw.Network:
        """Channels that do not fade, so that zeta is known; at least one shard each in every round."""
        rng = np.random.default_rng([self.seed, 1])
        rounds = self.settle + self.rounds
        rate = 1.5 + 1.5 * np.arange(self.devices) / max(1, self.devices - 1)
        counts = 1 + rng.poisson(rate - 1, (rounds, self.instances, self.devices))
        table = fw.DeviceTable(rate=rate, distance_m=np.resize([300.0, 350.0], self.devices))
        still = fw.fading.RecordedGains(np.ones((rounds, self.devices)))
        arrivals = fw.arrivals.RecordedArrivals(counts)
        return fw.Network(table, self.slots, fading=still, success=fw.success.Soft(), arrivals=arrivals)


@dataclass(frozen=True, eq=False)
class SettledRounds:
    """The schedule of the rounds in which training happens, after the first ``settle`` ones; ``[T, I, U]``."""

    scheduled: Flags
    delivered: Flags
    share: Floats  # c, 0 where nothing was delivered
    rate: Floats  # max(1, ln d)
    least: Floats  # the c of a scheduled device if all uploads arrive
    most: Floats  # the same if only its own arrives
    chance: Floats  # p, [U]


def settled_rounds(setting: ConvergenceSetting) -> SettledRounds:
    """Simulates the network of a setting."""
    network = setting.network()
    run = fw.simulate(network, setting.scheduler, setting.settle + setting.rounds, setting.instances, setting.seed)
    held = run.waiting + run.arrivals
    reported = np.where(run.delivered, held, 0)
    learned = run.learned
    before, after = learned - reported, slice(setting.settle, None)
    all_arrive = before + np.where(run.scheduled, held, 0)
    alone = before.sum(axis=2, keepdims=True) + held

    def shares(delivered: Flags, learned: Counts) -> Floats:
        nothing = np.zeros(learned.shape)
        return fw.aggregation.Uploads(delivered, learned, run.delay, nothing, nothing).shares[after]

    return SettledRounds(
        scheduled=run.scheduled[after],
        delivered=run.delivered[after],
        share=shares(run.delivered, learned),
        rate=setting.aggregation.rate(run.delay)[after],
        least=shares(run.scheduled, all_arrive),
        most=((before + held) / alone)[after],
        chance=network.success.probability(network.mean_snr),
    )


def _chance(score: Floats) -> Floats:
    """1 / (1 + exp(-score)), without overflow."""
    out: Floats = np.exp(-np.logaddexp(0, -score))
    return out
