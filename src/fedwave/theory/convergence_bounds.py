"""The constants of Theorem 1 and the bounds made of them, as shares of the first gap; derived in convergence.py."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.theory.convergence_setting import LogisticLoss, Schedule
from fedwave.types import FloatArray


@dataclass(frozen=True)
class Constants:
    """What the bounds are made of, in the letters of convergence.py."""

    smoothness: float  # L
    convexity: float  # xi
    alignment: float  # eps
    dissimilarity: float  # V
    uploads: float  # zeta
    slots: int  # W
    share_low: float  # C_low
    share_high: float  # C_high
    largest_share: float  # max c
    eta: float

    @property
    def printed_limit(self) -> float:
        """The paper's largest step."""
        force = self.smoothness * (self.slots * self.dissimilarity) ** 2
        return 2 * self.alignment * self.uploads / (force * self.largest_share)

    @property
    def limit(self) -> float:
        """The largest step with which the corrected power still falls."""
        return self.printed_limit * self.largest_share * self.share_low / self.share_high**2

    @property
    def printed_rate(self) -> float:
        """The paper's eps', with its own step: eps zeta (1 - 1 / max c)."""
        force = self.smoothness * (self.slots * self.dissimilarity) ** 2
        return self.alignment * self.uploads - force * self.printed_limit / 2

    def factor(self, descent: FloatArray | float, curvature: FloatArray | float) -> FloatArray:
        """What a round leaves of the gap, for ``descent`` = k q_low and ``curvature`` = k q_high."""
        down = self.alignment * (descent if self.alignment >= 0 else curvature)
        gain = down - self.smoothness / 2 * (curvature * self.dissimilarity) ** 2
        return 1 - 2 * np.where(gain >= 0, self.convexity, self.smoothness) * gain


def constants_of(loss: LogisticLoss, plan: Schedule, slots: int, eps: float, v: float, eta: float) -> Constants:
    """Everything at once; ``eps`` and ``v`` are those found on the way."""
    sent = plan.scheduled
    return Constants(
        smoothness=loss.smoothness,
        convexity=loss.convexity,
        alignment=eps,
        dissimilarity=v,
        uploads=float((sent * plan.chance).sum(axis=2).min()),
        slots=slots,
        share_low=float((plan.least * plan.rate)[sent].min()),
        share_high=float((plan.most * plan.rate)[sent].max()),
        largest_share=float(plan.share.max()),
        eta=eta,
    )


def product(known: Constants, plan: Schedule) -> FloatArray:
    """Corrected, for every path: ``[T + 1, I]``."""
    step = known.eta * plan.share * plan.rate
    k = np.count_nonzero(plan.delivered, axis=2)
    low = np.where(plan.delivered, step, np.inf).min(axis=2)
    return _from_one(known.factor(k * np.where(k > 0, low, 0.0), k * step.max(axis=2)))


def power(known: Constants, plan: Schedule) -> FloatArray:
    """Corrected, for the mean over paths: ``[T + 1]``."""
    descent = known.eta * known.uploads * known.share_low
    curvature = known.eta * known.slots * known.share_high
    return _from_one(np.full(len(plan.share), known.factor(descent, curvature)))


def printed_product(known: Constants, plan: Schedule) -> FloatArray:
    """The paper's first bound, for the schedule of each path: ``[T + 1, I]``."""
    largest = known.eta * plan.rate.max(axis=2)
    force = known.smoothness * largest * (known.slots * known.dissimilarity) ** 2 / 2
    expected = (plan.scheduled * plan.chance).sum(axis=2)
    return _from_one(1 + 2 * known.convexity * largest * (force - known.alignment * expected))


def printed_power(known: Constants, plan: Schedule) -> FloatArray:
    """The paper's second bound: ``[T + 1]``."""
    rate = 1 - 2 * known.convexity * known.eta * known.printed_rate
    return _from_one(np.full(len(plan.share), rate))


def _from_one(factors: FloatArray) -> FloatArray:
    """1 and then the products of the factors; what grows beyond all numbers is infinite."""
    with np.errstate(over="ignore"):
        return np.concatenate([np.ones_like(factors[:1]), np.cumprod(factors, axis=0)])
