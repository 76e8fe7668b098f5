"""The objective delivered mass: a device earns mass and pays for every transmission. When should it transmit?

    g + h(d) = h(d+1) + E_p[(p (R(d) - h(d+1)) - price)^+],    h(1) = 0.

g is the largest mean of delivered mass, less what is paid. R(d) - h(d+1) is what a delivery at delay d is worth: its
mass, less what waiting would have brought. The device transmits where p times this worth exceeds the price
(docs/theory.md). R(d) = k rho(d) (class Reward). The problem is solved for k = 1; with the price divided by k it is
that of any device.

The delay only grows until an upload succeeds, which makes it 1. The mean of a given policy therefore follows from one
sweep from the largest delay down to 1. Mass counts as a negative cost in the sweeps.

Beyond the last delay rho continues in a straight line with its steepest slope. This makes g too high, never too low,
and ``error`` says by how much at most. If no delay is worth the price, g = 0. Very long delays are not solved: there g
is bounded by the maximum over k of (rho(k) - cost) / k, with the cost of an upload at the best channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np

from fedwave.aggregation import Aggregation, Uploads
from fedwave.errors import FedwaveError
from fedwave.planning.channel_levels import Levels
from fedwave.planning.price_search import DeviceClasses, Objective
from fedwave.planning.renewal_solver import Fields, Solutions, iterate_policy, solve_in_batches
from fedwave.types import Array, BoolArray, FloatArray, IntArray

_NEVER = 1e-12  # in place of a success probability of 0, at which a cycle would not end
_AT_ONCE = 1 << 18  # delays of all problems in a batch, small enough for the caches
_EXACT = 4096  # delays up to here are looked at one by one
_RATIO = 1.01  # of the delays beyond
_FARTHEST = 2.0**60


@dataclass(frozen=True, eq=False)
class Reward:
    """rho of an aggregation rule; compared by its values, so that what was solved is found again.

    A scheduler that does not see the arrivals expects theta (1 + beta + ... + beta^(d-1)) shards' worth of local steps
    behind an upload at delay d. With the weight c r(d) of the rule, and the long-run share v = theta / sum of theta in
    place of c, a delivery brings

        R(d) = v theta rho(d),    rho(d) = r(d) (1 - beta^d) / (1 - beta).

    (After a delivery N_u holds everything that has arrived at device u, so c_u is close to theta_u over a total that
    all devices share.) rho is the same for all devices. A cap is ignored: it can only lower the mass.
    """

    rule: Aggregation

    def __post_init__(self) -> None:
        if self.rule.has_server_step() or not _weighs_by_share(self.rule):
            raise FedwaveError(
                f"aggregation {self.rule.name!r} does not weigh an upload by c r(d) alone, so the mass of a schedule "
                "cannot be planned for: use a rule such as lee or constant."
            )

    def rate(self, delay: Array) -> FloatArray:
        """r(d): the factor by which the rule weighs an upload of this delay, in the shape of ``delay``."""
        return np.asarray(self.rule.rate(delay), dtype=np.float64)

    def steps(self, delay: Array) -> FloatArray:
        """(1 - beta^d) / (1 - beta): the expected mass of an update at this delay, for a device with rate 1."""
        if self.rule.decay == 1:
            return np.asarray(delay, dtype=np.float64)
        if self.rule.decay == 0:
            return np.ones(np.shape(delay))
        out: FloatArray = np.expm1(delay * np.log(self.rule.decay)) / np.expm1(np.log(self.rule.decay))
        return out

    def at(self, delay: Array) -> FloatArray:
        """rho(d), in the shape of ``delay``."""
        return self.rate(delay) * self.steps(delay)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reward) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    @cached_property
    def _digest(self) -> bytes:
        delays, _ = self._cells
        return blake2b(self.at(delays).tobytes(), digest_size=16).digest()

    @cached_property
    def _cells(self) -> tuple[IntArray, IntArray]:
        """Ranges of delays, [first, last]: single delays, then longer and longer ranges."""
        single = np.arange(1, _EXACT + 1)
        count = int(np.log(_FARTHEST / _EXACT) / np.log(_RATIO))
        edges = np.floor(_EXACT * _RATIO ** np.arange(count + 1)).astype(np.int64)
        first = np.concatenate([single, edges[:-1] + 1])
        return first, np.concatenate([single, edges[1:]])

    def most_per_round(self, cost: FloatArray) -> FloatArray:
        """At least the largest (rho(k) - cost) / k over all k >= 1, ``[B]``, and at least 0.

        Between two far delays r is taken to be monotone.
        """
        first, last = self._cells
        highest = np.maximum(self.rate(first), self.rate(last)) * self.steps(last)
        best = np.zeros(cost.shape)
        for some in np.array_split(np.arange(first.size), 8):
            surplus = (highest[some] - cost[:, None]) / first[some]
            best = np.maximum(best, surplus.max(axis=1))
        return best

    def steepest_after(self, delay: int) -> float:
        """At least the largest rho(d + 1) - rho(d) over all d >= ``delay``, and at least 0.

        Between two far delays r and its increments are taken to be monotone.
        """
        first, last = self._cells
        first, last = np.maximum(first[last >= delay], delay), last[last >= delay]
        rises = np.maximum(*(self.rate(d + 1) - self.rate(d) for d in (first, last)))
        rate = np.maximum(self.rate(first), self.rate(last))
        kept = np.ones(first.shape) if self.rule.decay == 1 else self.rule.decay ** first.astype(np.float64)
        held = np.where(rises > 0, self.steps(last + 1), self.steps(first + 1))
        return float(np.max(rate * kept + rises * held, initial=0.0))

    @property
    def nothing_is_lost(self) -> bool:
        """Does every shard that arrived count in full whenever it is delivered? Then the mass cannot be planned."""
        far = 2 ** np.arange(41)
        return self.rule.decay == 1 and bool(np.all(self.rate(far) == self.rate(far[:1])))

    @property
    def has_no_bound(self) -> bool:
        """Does waiting always bring more per round? Then no policy is best."""
        far = self.rate(2 ** np.array([20, 40]))
        return self.rule.decay == 1 and bool(far[1] > far[0] * (1 + 1e-9))


def shared_mass(rates: FloatArray) -> FloatArray:
    """k = v theta of each device, over the last axis: what a delivery of the shards of one round brings."""
    return long_run_shares(rates) * rates


def long_run_shares(rates: FloatArray) -> FloatArray:
    """v = theta / sum of theta over the last axis: the share of each device in all shards; 0 without any arrivals."""
    total = rates.sum(axis=-1, keepdims=True)
    return rates / np.where(total > 0, total, 1.0)


def _weighs_by_share(rule: Aggregation) -> bool:
    """True if the rule weighs every upload by c r(d), whatever other devices upload."""
    delivered = np.array([[True, True, False, True], [False, True, True, False]])
    learned = np.array([[3, 5, 9, 1], [40, 7, 2, 11]])
    delay = np.array([[1, 4, 2, 90], [3, 1, 17, 2]])
    nothing = np.zeros(delay.shape)
    uploads = Uploads(delivered, learned, delay, nothing, nothing)
    return bool(np.allclose(delivered * rule.weights(uploads), uploads.shares * rule.rate(delay), rtol=1e-9))


@dataclass(frozen=True)
class MassEffort:
    """How accurately a problem is solved."""

    first: int  # delays of the first attempt; four times as many of each further one
    largest: int
    error: float  # of g from cutting delays off; above it there is a further attempt
    saving: float  # gain at any delay, relative to the price, below which policy iteration stops


FINE_MASS = MassEffort(first=64, largest=1 << 13, error=1e-6, saving=1e-12)
MEDIUM_MASS = MassEffort(first=64, largest=1 << 10, error=1e-4, saving=1e-8)
COARSE_MASS = MassEffort(first=64, largest=1 << 10, error=1e-3, saving=1e-6)


@dataclass(frozen=True, eq=False)
class MassSolutions(Solutions):
    """Solutions with k = 1; ``worth`` is rho(d) - h(d + 1), and ``cost`` is -g, at most ``error`` too low."""

    served: BoolArray  # [B] False: no delay is worth the price
    reward: Reward

    def worth_at(self, which: IntArray, state: Array) -> FloatArray:
        # A device that is not served has h = 0 at every delay, also beyond the last.
        return np.where(self.served[which], super().worth_at(which, state), self.reward.at(state))

    def device_worth(self, which: IntArray, rates: FloatArray, state: Array) -> FloatArray:
        return shared_mass(rates) * self.worth_at(which, state)


@dataclass(frozen=True)
class MassObjective(Objective[MassSolutions]):
    """The delivered mass, weighted by v, to be maximised: its negative is the cost."""

    reward: Reward
    effort: MassEffort = FINE_MASS

    def solve_classes(self, classes: DeviceClasses, levels: Levels, price: float) -> MassSolutions:
        return solve_mass(levels, classes.row, price / unit_mass(classes), self.reward, self.effort)

    def cost(self, classes: DeviceClasses, solutions: MassSolutions) -> FloatArray:
        return unit_mass(classes) * solutions.cost

    def first_guess(self, classes: DeviceClasses, slots: float, levels: Levels) -> tuple[float, float]:
        # The guess: the devices with the highest rates, one per slot, deliver fresh shards.
        order = np.argsort(-classes.theta)
        among = np.searchsorted(np.cumsum(classes.count[order]), slots)
        return float(unit_mass(classes)[order][min(int(among), order.size - 1)]), 2.0


def unit_mass(classes: DeviceClasses) -> FloatArray:
    """k = v theta of each class, ``[D]``: what a delivery brings where rho is 1."""
    return classes.theta**2 / (classes.count @ classes.theta)


def solve_mass(
    levels: Levels, row: IntArray, price: FloatArray, reward: Reward, effort: MassEffort = FINE_MASS
) -> MassSolutions:
    """Solve problems with channels ``row`` and prices (divided by k), each ``[B]``."""
    # No policy brings more, because an upload that succeeds costs price / p at least.
    most = reward.most_per_round(price / levels.top[row])

    def cut(which: IntArray, size: IntArray) -> list[IntArray]:
        pieces = -(-int(size[which].sum()) // _AT_ONCE)
        return np.array_split(which, min(pieces, which.size))

    def improve(batch: IntArray, size: int) -> tuple[Fields, BoolArray]:
        found = _up_to_delay(levels, row[batch], price[batch], reward, size, most[batch], effort.saving)
        return found, found["error"] > effort.error * np.maximum(-found["cost"], 0.1)

    found = solve_in_batches(np.full(row.size, effort.first), cut, improve, 4, effort.largest)
    return MassSolutions(**found, reward=reward)


def _up_to_delay(
    levels: Levels, row: IntArray, price: FloatArray, reward: Reward, size: int, most: FloatArray, saving: float
) -> Fields:
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
    return {
        "service": np.where(served, found.sums[0, 1] / found.sums[0, 2], 0.0),
        "error": np.maximum(high - low, 0.0),
        "cost": -np.maximum(high, low),
        "worth": found.worth,
        "served": served,
    }


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
