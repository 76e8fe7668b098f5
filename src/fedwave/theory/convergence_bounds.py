"""The constants of Theorem 1 and its bounds, relative to the first gap; derived in convergence.py."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.theory.convergence_setting import LogisticLoss, SettledRounds
from fedwave.types import FloatArray


@dataclass(frozen=True)
class Constants:
    """The constants of the bounds, with their letters in convergence.py."""

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
        """The largest step with which the corrected power bound falls."""
        return self.printed_limit * self.largest_share * self.share_low / self.share_high**2

    @property
    def printed_rate(self) -> float:
        """The paper's eps', with its own step: eps zeta (1 - 1 / max c)."""
        force = self.smoothness * (self.slots * self.dissimilarity) ** 2
        return self.alignment * self.uploads - force * self.printed_limit / 2

    def factor(self, descent: FloatArray | float, curvature: FloatArray | float) -> FloatArray:
        """The factor of the gap in a round, for ``descent`` = k q_low and ``curvature`` = k q_high."""
        down = self.alignment * (descent if self.alignment >= 0 else curvature)
        gain = down - self.smoothness / 2 * (curvature * self.dissimilarity) ** 2
        return 1 - 2 * np.where(gain >= 0, self.convexity, self.smoothness) * gain


def theorem_constants(
    loss: LogisticLoss, settled: SettledRounds, slots: int, eps: float, v: float, eta: float
) -> Constants:
    """The constants of a loss and a schedule; ``eps`` and ``v`` are measured during training."""
    sent = settled.scheduled
    return Constants(
        smoothness=loss.smoothness,
        convexity=loss.convexity,
        alignment=eps,
        dissimilarity=v,
        uploads=float((sent * settled.chance).sum(axis=2).min()),
        slots=slots,
        share_low=float((settled.least * settled.rate)[sent].min()),
        share_high=float((settled.most * settled.rate)[sent].max()),
        largest_share=float(settled.share.max()),
        eta=eta,
    )


def product_bound(known: Constants, settled: SettledRounds) -> FloatArray:
    """The corrected bound on every path, ``[T + 1, I]``."""
    step = known.eta * settled.share * settled.rate
    k = np.count_nonzero(settled.delivered, axis=2)
    low = np.where(settled.delivered, step, np.inf).min(axis=2)
    return _from_one(known.factor(k * np.where(k > 0, low, 0.0), k * step.max(axis=2)))


def power_bound(known: Constants, settled: SettledRounds) -> FloatArray:
    """The corrected bound on the mean over paths, ``[T + 1]``."""
    descent = known.eta * known.uploads * known.share_low
    curvature = known.eta * known.slots * known.share_high
    return _from_one(np.full(len(settled.share), known.factor(descent, curvature)))


def printed_product_bound(known: Constants, settled: SettledRounds) -> FloatArray:
    """The paper's first bound, for the schedule of each path, ``[T + 1, I]``."""
    largest = known.eta * settled.rate.max(axis=2)
    force = known.smoothness * largest * (known.slots * known.dissimilarity) ** 2 / 2
    expected = (settled.scheduled * settled.chance).sum(axis=2)
    return _from_one(1 + 2 * known.convexity * largest * (force - known.alignment * expected))


def printed_power_bound(known: Constants, settled: SettledRounds) -> FloatArray:
    """The paper's second bound, ``[T + 1]``."""
    rate = 1 - 2 * known.convexity * known.eta * known.printed_rate
    return _from_one(np.full(len(settled.share), rate))


def _from_one(factors: FloatArray) -> FloatArray:
    """1, then the products of the factors; infinite where they overflow."""
    with np.errstate(over="ignore"):
        return np.concatenate([np.ones_like(factors[:1]), np.cumprod(factors, axis=0)])
