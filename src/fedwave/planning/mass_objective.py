"""The objective delivered mass: a device earns mass and pays for every transmission. When should it transmit?

    g + h(d) = h(d+1) + E_p[(p (R(d) - h(d+1)) - price)^+],    h(1) = 0.

g is the largest mean of delivered mass, less what is paid. R(d) - h(d+1) is what a delivery at delay d is worth: its
mass, less what waiting would have brought. The device transmits where p times this worth exceeds the price
(docs/theory.md). R(d) is k rho(d) (mass_reward.py). The problem is solved for k = 1; with the price divided by k it is
that of any device.

The delay only grows until an upload succeeds, which makes it 1. The mean of a given policy therefore follows from one
sweep from the largest delay down to 1. Mass counts as a negative cost in the sweeps.

Beyond the last delay rho continues in a straight line with its steepest slope. This makes g too high, never too low,
and ``error`` says by how much at most. If no delay is worth the price, g = 0. Very long delays are not solved: there g
is bounded by the maximum over k of (rho(k) - cost) / k, with the cost of an upload at the best channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedwave.planning.channel_levels import Levels
from fedwave.planning.mass_reward import Reward, shared_mass
from fedwave.planning.price_search import DeviceClasses, Objective
from fedwave.planning.renewal_solver import Solutions, iterate_policy, solve_in_batches
from fedwave.types import Array, BoolArray, FloatArray, IntArray

_NEVER = 1e-12  # in place of a success probability of 0, at which a cycle would not end
_AT_ONCE = 1 << 18  # delays of all problems in a batch, small enough for the caches


@dataclass(frozen=True)
class MassEffort:
    """How accurately a problem is solved."""

    FINE: ClassVar[MassEffort]
    MEDIUM: ClassVar[MassEffort]
    COARSE: ClassVar[MassEffort]

    first: int  # delays of the first attempt; four times as many of each further one
    largest: int
    error: float  # of g from cutting delays off; above it there is a further attempt
    saving: float  # gain at any delay, relative to the price, below which policy iteration stops


MassEffort.FINE = MassEffort(first=64, largest=1 << 13, error=1e-6, saving=1e-12)
MassEffort.MEDIUM = MassEffort(first=64, largest=1 << 10, error=1e-4, saving=1e-8)
MassEffort.COARSE = MassEffort(first=64, largest=1 << 10, error=1e-3, saving=1e-6)


@dataclass(frozen=True, eq=False)
class MassSolutions(Solutions):
    """Solutions with k = 1; ``worth`` is rho(d) - h(d + 1) at delays 1, 2, ..."""

    mass: FloatArray  # [B] g, at most ``error`` too high
    served: BoolArray  # [B] False: no delay is worth the price
    reward: Reward

    def worth_at(self, which: IntArray, state: Array) -> FloatArray:
        """rho(d) - h(d + 1) of problems ``which`` at these delays; the two are broadcast."""
        seen = self.worth[self.start[which] + np.minimum(state, self.length[which]) - 1]
        # A device that is not served has h = 0 at every delay, also beyond the last.
        return np.where(self.served[which], seen, self.reward.at(state))

    def device_worth(self, which: IntArray, rates: FloatArray, state: Array) -> FloatArray:
        return shared_mass(rates) * self.worth_at(which, state)


@dataclass(frozen=True)
class MassObjective(Objective[MassSolutions]):
    """The delivered mass, weighted by v, to be maximised: its negative is the cost."""

    reward: Reward
    effort: MassEffort = MassEffort.FINE

    def solve_classes(self, classes: DeviceClasses, levels: Levels, price: float) -> MassSolutions:
        return solve_mass(levels, classes.row, price / unit_mass(classes), self.reward, self.effort)

    def cost(self, classes: DeviceClasses, solutions: MassSolutions) -> FloatArray:
        return -unit_mass(classes) * solutions.mass

    def first_guess(self, classes: DeviceClasses, slots: float, levels: Levels) -> tuple[float, float]:
        # As many devices as there are slots deliver fresh shards.
        order = np.argsort(-classes.theta)
        among = np.searchsorted(np.cumsum(classes.count[order]), slots)
        return float(unit_mass(classes)[order][min(int(among), order.size - 1)]), 2.0


def unit_mass(classes: DeviceClasses) -> FloatArray:
    """k = v theta of each class, ``[D]``: what a delivery brings where rho is 1."""
    return classes.theta**2 / (classes.count @ classes.theta)


def solve_mass(
    levels: Levels, row: IntArray, price: FloatArray, reward: Reward, effort: MassEffort = MassEffort.FINE
) -> MassSolutions:
    """Solve problems with channels ``row`` and prices (divided by k), each ``[B]``."""
    # No policy brings more, because an upload that succeeds costs price / p at least.
    most = reward.most_per_round(price / levels.top[row])

    def cut(which: IntArray, size: IntArray) -> list[IntArray]:
        pieces = -(-int(size[which].sum()) // _AT_ONCE)
        return np.array_split(which, min(pieces, which.size))

    def improve(batch: IntArray, size: int) -> tuple[MassSolutions, BoolArray]:
        found = _up_to_delay(levels, row[batch], price[batch], reward, size, most[batch], effort.saving)
        return found, found.error > effort.error * np.maximum(found.mass, 0.1)

    return solve_in_batches(np.full(row.size, effort.first), cut, improve, 4, effort.largest)


def _up_to_delay(
    levels: Levels, row: IntArray, price: FloatArray, reward: Reward, size: int, most: FloatArray, saving: float
) -> MassSolutions:
    """Policy iteration over delays 1 to ``size``, from the policy that transmits wherever an upload can succeed."""
    rho, slope = reward.at(np.arange(1, size + 1))[:, None], reward.steepest_after(size)
    found = iterate_policy(
        levels,
        row,
        price,
        np.full((size, row.size), np.inf),
        evaluate=lambda share, gain: _sums_to_next_delivery(share, gain, rho, slope),
        worth_after=lambda value: rho + np.concatenate([value[1:], value[-1:] - slope]),
        saving=lambda worth: saving * (1 + price),
        last_state_keeps=True,
    )
    mass = -found.cost
    low = np.maximum(mass - slope * found.sums[0, 3] / found.sums[0, 2], 0.0) * (found.gain[-1] > 0)
    high = np.where(found.stuck, most, np.minimum(mass + found.left, most))
    served = low > 0
    return MassSolutions(
        mass=np.maximum(high, low),
        service=np.where(served, found.sums[0, 1] / found.sums[0, 2], 0.0),
        error=np.maximum(high - low, 0.0),
        served=served,
        length=np.full(row.size, size),
        start=np.arange(row.size) * size,
        worth=found.worth.T.ravel(),
        reward=reward,
    )


def _sums_to_next_delivery(share: FloatArray, gain: FloatArray, rho: FloatArray, slope: float) -> FloatArray:
    """Expected sums from delay d to the next successful upload, under a policy: ``[D, 4, B]``.

    The four sums are over the delivered mass (negative), transmissions, rounds, and rounds beyond the largest delay.
    """
    keep = 1 - gain
    out = np.stack([-gain * rho, share, np.ones(share.shape), np.zeros(share.shape)], axis=1)
    # At the largest delay the same happens in every round, and rho rises in a straight line.
    later = keep[-1] / np.maximum(gain[-1], _NEVER)
    out[-1] = [-(rho[-1] + slope * later), share[-1] * (1 + later), 1 + later, later]
    for d in range(len(out) - 2, -1, -1):
        out[d] += keep[d] * out[d + 1]
    return out
