"""Bounds that no scheduler exceeds: a lower one on the mean backlog, and an upper one on the delivered mass.

Put a price on each transmission and let every device minimise its own backlog plus its payments; let g_u be its cost
per round. Then sum of g_u - price * slots is at most the long-run mean backlog of any scheduler that uses no more slots
on average, whatever it observes of the present and the past. The best price gives the best bound.

The mass of a round is the sum of v_u r(d_u) over the delivered devices: the round metric "mass", with the long-run
share v_u = theta_u / sum of theta in place of c_u and without a cap. Let every device maximise its own mass less its
payments, and let g_u be that maximum per round. Then sum of g_u + price * slots is at least the long-run mean mass of
any scheduler that uses no more slots on average and sees neither backlogs nor arrivals before they are delivered.

Every approximation makes the first bound lower and the second higher, so they remain bounds:

* p is replaced by levels above it, or spread around its value (planning/channel_levels.py);
* beyond the last lattice point, v has the smallest slope that it can have (planning/backlog_objective.py); beyond the
  last delay, the mass of a delivery rises in a straight line (planning/mass_objective.py);
* the tail of the arrivals is cut, and on a lattice coarser than one shard arrivals are spread with their mean kept;
* every price gives a bound, so the best price need not be exact.

``error`` limits what these approximations cost: the exact value at this price lies within ``error`` of ``value``. It is
computed with p replaced by levels below it, and with the steepest slope beyond the last lattice point.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedwave.aggregation import Aggregation, Lee
from fedwave.errors import FedwaveError
from fedwave.network.arrivals import RecordedArrivals
from fedwave.network.fading import Fading
from fedwave.network.network import Network, check_network
from fedwave.parts import registry
from fedwave.planning.backlog_objective import BacklogObjective, BacklogSolutions
from fedwave.planning.channel_levels import (
    Levels,
    lower_success,
    merge_levels,
    spread_levels,
    stack_levels,
    upper_success,
)
from fedwave.planning.mass_objective import MassObjective, Reward, unit_mass
from fedwave.planning.price_search import LEAST_RATE, DeviceClasses, PricedDevices, at_price, best_price
from fedwave.types import FloatArray

# Values of p over all channels: tens of thousands per channel if there are few channels, at least 4,096 each.
_EVALUATIONS = 1 << 25
_AT_ONCE = 1 << 21
# Fading models without closed quantiles are sampled, 200,000 gains each. With probability 99 % no quantile is off by
# more than this (Dvoretzky, Kiefer, Wolfowitz).
_SAMPLED = float(np.sqrt(np.log(200) / (2 * 200_000)))


@dataclass(frozen=True, eq=False, repr=False)
class PriceBound:
    """A bound that a price of transmissions gives; ``float(bound)`` is its value."""

    value: float
    error: float  # the exact bound at the same price is weaker by at most this
    price: float  # of a transmission, in shards that wait for one round, or in mass
    service: FloatArray  # [U] transmissions per round at that price

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}(value={self.value:.6g}, error={self.error:.2g}, price={self.price:.4g})"


@dataclass(frozen=True, eq=False, repr=False)
class Bound(PriceBound):
    """No scheduler has a long-run mean backlog below ``value``, in shards."""

    cost: FloatArray  # [U] g: the backlog of each device plus its payments


@dataclass(frozen=True, eq=False, repr=False)
class MassBound(PriceBound):
    """No scheduler that does not see the arrivals delivers more v-weighted mass per round than ``value``."""

    mass: FloatArray  # [U] g: the mass of each device less its payments


def backlog_bound(network: Network, *, hidden: bool = False) -> Bound:
    """A lower bound on the long-run mean backlog of every scheduler on this network.

    The backlog B is the number of shards that wait after a round, of all devices together. The bound is the largest
    value over prices c of sum over u of g_u(c) - c W, where g_u(c) is the least mean backlog of device u alone plus c
    per transmission. It needs rounds that are independent of each other, and devices without a buffer limit. Slots that
    change from round to round count by their mean.

    ``hidden=True`` gives the larger bound for schedulers that do not observe the backlogs, even if they know the rates.

    >>> import fedwave as fw
    >>> bound = fw.backlog_bound(fw.paper_network())
    >>> round(float(bound), 2), round(bound.price, 1), bound.error < 0.01, bound.service.shape
    (100.13, 25.6, True, (25,))
    """
    _check_distributions(network)
    limit = np.asarray(network.table.buffer_limit)
    if np.isfinite(limit).any():
        at = int(np.argmax(np.isfinite(limit)))
        raise FedwaveError(
            f"device {at + 1} has a buffer limit of {limit[at]:g}, but the bound does not hold where shards are lost: "
            "remove buffer_limit."
        )
    slots = float(np.mean(network.slots))
    # Leaving out a device with hardly any data lowers the bound, by a negligible amount.
    rates = np.where(network.rates < LEAST_RATE, 0.0, network.rates)
    classes = DeviceClasses.among(network.mean_snr, rates, network.planning.arrival_chances)
    nobody = np.zeros(network.size)
    if not classes.theta.size:
        return Bound(0.0, 0.0, 0.0, nobody, nobody)
    if slots == 0:
        return Bound(np.inf, 0.0, np.inf, nobody, np.where(classes.of_device >= 0, np.inf, 0.0))
    below, above = _bracketing_levels(network, classes)
    objective = BacklogObjective(hidden)
    best = best_price(objective, classes, slots, below)
    return Bound(
        best.value,
        _error(objective, classes, slots, best, above),
        best.price,
        classes.per_device(best.solutions.service),
        classes.per_device(best.cost),
    )


def score_bound(network: Network, *, hidden: bool = False) -> float:
    """An upper bound on the long-run mean score of every scheduler: sum of theta - gamma * ``backlog_bound``.

    >>> import fedwave as fw
    >>> round(fw.score_bound(fw.paper_network(gamma=0.1)), 1)
    57.0
    """
    check_network(network)
    if network.gamma == 0:
        return float(network.rates.sum())
    return float(network.rates.sum() - network.gamma * backlog_bound(network, hidden=hidden).value)


def mass_bound(network: Network, aggregation: registry.Spec | Aggregation | None = None) -> MassBound:
    """An upper bound on the long-run mean mass that is delivered in a round, for schedulers that see no backlogs.

    An upload of device u with delay d counts v_u r(d), where v_u = theta_u / sum of theta. The metric "mass" has c_u,
    the share of u in the data delivered so far, in place of v_u; there a scheduler that starves devices can exceed this
    bound. ``aggregation`` is the rule that weighs an upload by c r(d), a name or an object; None is "lee". Slots that
    change from round to round count by their mean.

    >>> import fedwave as fw
    >>> bound = fw.mass_bound(fw.paper_network())
    >>> round(float(bound), 2), round(bound.price, 2), bound.error < 0.001
    (3.69, 0.28, True)
    """
    _check_distributions(network)
    reward = Reward(Lee() if aggregation is None else registry.build("aggregation", aggregation))
    if reward.has_no_bound:
        raise FedwaveError(
            f"beta is 1 and the rate of {reward.rule.name!r} grows with the delay, so that no finite bound exists: use "
            "beta < 1, or a rule with a constant rate."
        )
    slots = float(np.mean(network.slots))
    classes = DeviceClasses.among(network.mean_snr, network.rates, network.planning.arrival_chances)
    nobody = np.zeros(network.size)
    if not classes.theta.size or slots == 0:
        return MassBound(0.0, 0.0, 0.0 if slots else np.inf, nobody, nobody)
    if reward.nothing_is_lost:  # every shard counts once, whenever it is delivered
        most = classes.per_device(unit_mass(classes) * reward.rate(np.array([1])))
        return MassBound(float(most.sum()), 0.0, 0.0, nobody, most)
    above, below = _bracketing_levels(network, classes)
    objective = MassObjective(reward)
    best = best_price(objective, classes, slots, above)
    low = at_price(objective, classes, slots, below, best.price)
    cut_off = float((classes.count * unit_mass(classes)) @ low.solutions.error)
    error = max(low.value + cut_off - best.value, 0.0)
    service, mass = classes.per_device(best.solutions.service), classes.per_device(-best.cost)
    return MassBound(-best.value, error, best.price, service, mass)


def _check_distributions(network: Network) -> None:
    """Raises FedwaveError unless one distribution describes the channels, and one the arrivals, of all rounds."""
    check_network(network)
    if not network.fading.independent:
        raise FedwaveError(
            f"fading is {type(network.fading).__name__}, but the bound needs rounds that are independent of each "
            "other: use Rayleigh(), Rician() or Shadowing(correlation=0)."
        )
    if not network.always_available:
        raise FedwaveError(
            f"availability is {network.availability!r}, but the bound needs devices that are always there: remove it."
        )
    if isinstance(network.arrivals, RecordedArrivals):
        raise FedwaveError(
            "arrivals is RecordedArrivals, but the bound needs the distribution of arrivals: use Poisson(), "
            "NegativeBinomial() or ZeroInflatedPoisson()."
        )


def _bracketing_levels(network: Network, classes: DeviceClasses) -> tuple[Levels, Levels]:
    """The levels of the channels, approximated towards better and towards worse channels."""
    many = classes.mean_snr.size
    cells = 1024 if many <= 1024 else 256
    sampled = type(network.fading).sum_quantiles is Fading.sum_quantiles
    # More gains where uploads rarely succeed.
    mean = network.planning.success_levels(classes.mean_snr, 256).mean(axis=1)
    wanted = 2.0 ** np.ceil(np.log2(16384 / np.maximum(mean, 1 / 64)))
    count = np.clip(wanted, 4096, max(_EVALUATIONS // many, 4096)).astype(np.int64)
    better, worse, order = [], [], []
    for size in np.unique(count):
        slip = int(np.ceil(_SAMPLED * size)) if sampled else 0
        rows = np.flatnonzero(count == size)
        for some in np.array_split(rows, -(-rows.size * int(size) // _AT_ONCE)):
            # A measured curve may not rise everywhere.
            p = np.sort(network.planning.success_levels(classes.mean_snr[some], int(size)), axis=1)
            levels, weights = upper_success(p, slip)
            better.append(spread_levels(levels, cells, weights))
            levels, weights = lower_success(p, slip)
            worse.append(merge_levels(levels, cells, weights))
            order.append(some)
    back = np.argsort(np.concatenate(order))
    return stack_levels(better).select(back), stack_levels(worse).select(back)


def _error(
    objective: BacklogObjective,
    classes: DeviceClasses,
    slots: float,
    best: PricedDevices[BacklogSolutions],
    above: Levels,
) -> float:
    if np.any(above.mean[classes.row] < 1e-9):  # some device may never succeed
        return float(np.inf)
    high = objective.solve_classes(classes, above, best.price)
    cost = high.cost + high.error
    if not objective.hidden and np.any(high.unit > 1):
        # On a lattice with unit 1 the cost would be larger. A lattice twice as coarse estimates by how much.
        coarser = replace(objective, effort=replace(objective.effort, points=objective.effort.points // 2))
        coarse = coarser.solve_classes(classes, above, best.price)
        cost = cost + np.where(high.unit > 1, np.abs(high.cost - coarse.cost), 0.0)
    return max(float(classes.count @ cost) - best.price * slots - best.value, 0.0)
