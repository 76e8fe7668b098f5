"""The delivered mass that one delivery brings, as a function of its delay.

A scheduler that does not see the arrivals expects theta (1 + beta + ... + beta^(d-1)) shards' worth of local steps
behind an upload at delay d. With the weight c r(d) of the aggregation rule, and the long-run share v = theta / sum of
theta in place of c, a delivery brings

    R(d) = v theta rho(d),    rho(d) = r(d) (1 - beta^d) / (1 - beta).

(After a delivery N_u holds everything that has arrived at device u, so c_u is close to theta_u over a total that all
devices share.) rho is the same for all devices, so their problems differ only by the channel and by the factor
v theta. A cap is ignored: it can only lower the mass.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np

from fedwave.aggregation import Aggregation, Uploads
from fedwave.errors import FedwaveError
from fedwave.types import Array, FloatArray, IntArray

_EXACT = 4096  # delays up to here are looked at one by one
_RATIO = 1.01  # of the delays beyond
_FARTHEST = 2.0**60


@dataclass(frozen=True, eq=False)
class Reward:
    """rho of an aggregation rule; compared by its values, so that what was solved is found again."""

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
    """Are the weights c r(d), also beside other devices?"""
    delivered = np.array([[True, True, False, True], [False, True, True, False]])
    learned = np.array([[3, 5, 9, 1], [40, 7, 2, 11]])
    delay = np.array([[1, 4, 2, 90], [3, 1, 17, 2]])
    nothing = np.zeros(delay.shape)
    uploads = Uploads(delivered, learned, delay, nothing, nothing)
    return bool(np.allclose(delivered * rule.weights(uploads), uploads.shares * rule.rate(delay), rtol=1e-9))
