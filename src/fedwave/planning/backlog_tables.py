"""Tables of indices: with new rates or a new price an index is looked up, not solved for again.

Large backlogs scale. With k = sqrt(1 + theta^2), C / k as a function of price / k and n / k hardly depends on theta.
One table over (channel, theta, price / k, n / k) therefore serves all devices. It holds logarithms, because C and
the service rates are close to powers of these variables.

Whittle's index is the price at which a device with backlog n and success probability p is indifferent between sending
and waiting: p C(n; price) = price. price / C(n; price) rose with the price in all cases that were examined; then the
solution is unique. It is tabulated for every n and for steps of p.

If the backlog is hidden, C is averaged over the distribution of the arrivals since the last successful upload.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedwave.planning.backlog_objective import (
    COARSE_BACKLOG,
    MEDIUM_BACKLOG,
    BacklogEffort,
    BacklogObjective,
    arrivals_at_most,
    even_price,
    solve_backlog,
)
from fedwave.planning.channel_levels import Levels
from fedwave.planning.channel_statistics import ChannelStatistics
from fedwave.planning.interpolation import (
    Axis,
    WorthTables,
    channel_nodes,
    device_weights,
    interpolate,
    split_coordinate,
)
from fedwave.planning.price_search import MANY_CLASSES, ArrivalChances, DeviceClasses
from fedwave.types import Array, FloatArray, IntArray

_RATES = Axis(scale=0.05, ratio=1.6, count=16)  # up to 58; beyond, everything scales
_PRICES = Axis(scale=1.0, ratio=1.6, count=30)  # up to 830,000: one transmission in 1,300 rounds
_LOADS = Axis(scale=1.0, ratio=2 ** (1 / 3), count=40)  # up to 8,191; beyond, C is proportional
_LEAST_THETA = 1e-4  # in place of a rate of 0, at which C is not defined
_STEPS = 17  # of p, from 0 to 1
_FEW_CLASSES = 64  # up to this many classes of devices have the finer tables below
_FINE_PRICES = Axis(scale=1.0, ratio=2**0.25, count=81)
_FINE_LOADS = Axis(scale=1.0, ratio=1.1, count=95)
_LONG = 32  # rounds after which the sum of arrivals is replaced by its mean


@dataclass(frozen=True, eq=False)
class BacklogTables(WorthTables):
    """C and service rates at any rates; the last axis is n / k, or the delay if the backlog is averaged over."""

    row: IntArray  # [S]
    worth: FloatArray  # [R, rates, prices, loads] log of C / k
    service: FloatArray  # [R * rates, prices] transmissions per round at _PRICES (not divided by k)

    def worth_at(self, row: IntArray, theta: FloatArray, price: FloatArray, place: Array) -> FloatArray:
        """C of devices in these rows, ``[U]``, at rates ``[I, U]``, prices ``[I]`` and n / k = ``place``."""
        scale = backlog_scale(theta)
        logs = interpolate(
            self.worth,
            np.broadcast_to(row, theta.shape),
            _RATES.place(theta),
            _PRICES.place(price[:, None] / scale),
            _LOADS.place(place),
        )
        return np.exp(logs) * scale * _beyond_last(place, _LOADS)

    def price(self, row: IntArray, theta: FloatArray, slots: FloatArray) -> FloatArray:
        weight = device_weights(row, self.worth.shape[0], _RATES.place(theta), _RATES.count)
        # Multiplied one by one: the sums must not depend on the other instances.
        wanted = np.stack([one @ self.service for one in weight])
        return _crossing(wanted, slots)


def tabulated_backlog(
    objective: BacklogObjective, statistics: ChannelStatistics, classes: DeviceClasses, rates: FloatArray, slots: float
) -> Callable[[IntArray], FloatArray] | None:
    """C at backlogs ``[I, U]`` and the price at which the devices use the slots; None beyond the tables."""
    if classes.theta.max() > _RATES.last:
        return None
    tables = backlog_tables(statistics)
    row = tables.row[np.searchsorted(statistics.mean_snr, classes.mean_snr)][classes.row]
    each = np.repeat(np.arange(row.size), classes.count)
    # A price beyond the tables: C(n; price) = s^2 C(n / s; price / s^2).
    stretch: float = max(2 * even_price(classes, slots) / _PRICES.last, 1.0) ** 0.5
    price = tables.price(row[each], classes.theta[None, each], np.array([slots * stretch]))
    if price[0] >= _PRICES.last:
        return None
    which = np.maximum(classes.of_device, 0)
    device_row, theta = row[which], classes.theta[which][None]

    def worth(backlog: IntArray) -> FloatArray:
        load = backlog / (backlog_scale(theta) * stretch)
        return stretch**2 * tables.worth_at(device_row, theta, price, load)

    return worth


def backlog_scale(theta: Array) -> FloatArray:
    """k: near 1 for small rates, where backlogs are small whole numbers, and near theta for large ones."""
    out: FloatArray = np.sqrt(1 + theta * theta)
    return out


def _beyond_last(load: Array, loads: Axis) -> FloatArray:
    """The factor by which C grows for backlogs beyond the tables; 1 within them."""
    return np.maximum(load / loads.last, 1.0)


def _crossing(wanted: FloatArray, slots: FloatArray) -> FloatArray:
    """The price at which each falling curve ``wanted`` over _PRICES passes ``slots``: ``[I, prices]`` and ``[I]``."""
    reached = wanted <= slots[:, None]
    below = np.where(reached[:, -1], reached.argmax(axis=1), wanted.shape[1] - 1)
    cell, row = np.maximum(below, 1) - 1, np.arange(slots.size)
    high, low = wanted[row, cell], wanted[row, cell + 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.minimum(np.log(high / slots) / np.log(high / low), 1.0)
    coordinate = cell + np.where((low > 0) & (low < high), part, 1.0)
    # A power of arrays can differ in the last bit from one of numbers, so they are raised one by one.
    price = np.array([_PRICES.at(one) for one in coordinate.tolist()])
    return np.where(below > 0, price, 0.0)


@lru_cache(maxsize=8)
def backlog_tables(statistics: ChannelStatistics, hidden: bool = False) -> BacklogTables:
    """Tables for observed backlogs; with ``hidden``, for backlogs that grow by exactly theta per round."""
    nodes, row, mix = channel_nodes(statistics.mean_snr)
    theta = np.maximum(_RATES.points, _LEAST_THETA)
    which = np.repeat(np.arange(nodes.size), theta.size)
    chances = None if hidden else statistics.chances
    worth, service = _solved(statistics.channel_levels(nodes), which, np.tile(theta, nodes.size), chances)
    shape = (nodes.size, theta.size)
    worth = np.tensordot(mix, worth.reshape(*shape, *worth.shape[1:]), axes=1)
    service = np.tensordot(mix, service.reshape(*shape, -1), axes=1)
    return BacklogTables(row, worth, _at_common_prices(service, theta))


def _solved(
    levels: Levels,
    channel: IntArray,
    theta: FloatArray,
    chances: ArrivalChances | None,
    effort: BacklogEffort = COARSE_BACKLOG,
    prices: Axis = _PRICES,
    loads: Axis = _LOADS,
) -> tuple[FloatArray, FloatArray]:
    """Logarithms of C / k, ``[B, prices, loads]``, and of the service rates, ``[B, prices]``."""
    shape = (theta.size, prices.count)
    scale = backlog_scale(theta)
    price = (scale[:, None] * prices.points).ravel()
    row, rates = np.repeat(channel, prices.count), np.repeat(theta, prices.count)
    solutions = solve_backlog(levels, row, rates, price, chances, effort)
    load = np.repeat(scale, prices.count)[:, None] * loads.points
    worth = solutions.worth_at(np.arange(price.size)[:, None], load)
    worth = worth.reshape(*shape, -1) / scale[:, None, None]
    service = np.maximum(solutions.service.reshape(shape), 1e-12)
    return np.log(worth), np.log(service)


def _at_common_prices(service: FloatArray, theta: FloatArray) -> FloatArray:
    """Service rates at _PRICES instead of k * _PRICES, with rows and rates on one axis."""
    cell, part = _PRICES.place(_PRICES.points / backlog_scale(theta)[:, None])
    low = np.take_along_axis(service, cell[None], axis=2)
    high = np.take_along_axis(service, cell[None] + 1, axis=2)
    return np.exp(low + (high - low) * part).reshape(-1, _PRICES.count)


@dataclass(frozen=True, eq=False)
class WhittleTables:
    """log of index / (p k), over [row, rates, p, loads]; without the rates if each row has its own rate."""

    log_index: FloatArray
    loads: Axis

    def index_at(self, row: IntArray, theta: FloatArray, success: FloatArray, backlog: Array) -> FloatArray:
        """The index of each device, ``[I, U]``; ``row`` is ``[U]``."""
        scale = backlog_scale(theta)
        load = backlog / scale
        places = [split_coordinate(success * (_STEPS - 1), _STEPS), self.loads.place(load)]
        if self.log_index.ndim == 4:
            places.insert(0, _RATES.place(theta))
        logs = interpolate(self.log_index, np.broadcast_to(row, success.shape), *places)
        return success * np.exp(logs) * scale * _beyond_last(load, self.loads)


@lru_cache(maxsize=8)
def whittle_tables(statistics: ChannelStatistics) -> WhittleTables:
    """Tables for any rates; the row of a device is its row in ``backlog_tables``."""
    return WhittleTables(_log_index(backlog_tables(statistics).worth, _PRICES), _LOADS)


@lru_cache(maxsize=8)
def known_whittle_tables(statistics: ChannelStatistics, rates: bytes) -> tuple[IntArray, WhittleTables]:
    """Tables solved for each class of devices, and the row of each device; -1 for a device without arrivals."""
    classes = statistics.classes(np.frombuffer(rates))
    if not classes.theta.size:
        return classes.of_device, WhittleTables(np.zeros((1, _STEPS, _LOADS.count)), _LOADS)
    if classes.theta.size > MANY_CLASSES:
        row = backlog_tables(statistics).row[statistics.channel]
        return np.where(classes.of_device >= 0, row, -1), whittle_tables(statistics)
    levels = statistics.levels_of(classes)
    if classes.theta.size > _FEW_CLASSES:
        worth, _ = _solved(levels, classes.row, classes.theta, statistics.chances)
        return classes.of_device, WhittleTables(_log_index(worth, _PRICES), _LOADS)
    effort = MEDIUM_BACKLOG
    worth, _ = _solved(levels, classes.row, classes.theta, statistics.chances, effort, _FINE_PRICES, _FINE_LOADS)
    return classes.of_device, WhittleTables(_log_index(worth, _FINE_PRICES), _FINE_LOADS)


def _log_index(log_worth: FloatArray, prices: Axis) -> FloatArray:
    """From log C over [..., prices, loads] to log(index / p) over [..., p, loads]."""
    price = prices.points[:, None]
    ratio = price / np.exp(log_worth)  # rises from 0 with the price
    out = []
    for p in np.arange(_STEPS) / (_STEPS - 1):
        below = np.count_nonzero(ratio <= p, axis=-2, keepdims=True) - 1
        cell = np.minimum(below, prices.count - 2)
        low, high = (np.take_along_axis(ratio, cell + k, axis=-2) for k in (0, 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            # Both are close to powers of the price, except the first, which is 0.
            even = np.log(p / low) / np.log(high / low)
        part = np.where(cell == 0, (p - low) / (high - low), even)
        low_log, high_log = (np.take_along_axis(log_worth, cell + k, axis=-2) for k in (0, 1))
        inside = low_log + np.clip(part, 0.0, 1.0) * (high_log - low_log)
        # Beyond the last price the index grows with the square of the worth of an upload.
        with np.errstate(divide="ignore"):
            beyond = high_log + np.log(p / high)
        out.append(np.where(below > cell, beyond, inside))
    return np.concatenate(out, axis=-2)


@lru_cache(maxsize=8)
def averaged_backlog_tables(statistics: ChannelStatistics) -> BacklogTables:
    """Tables for hidden backlogs: E[C(n)] given d, where the last axis is d - 1 instead of n / k."""
    seen = backlog_tables(statistics)
    theta = np.maximum(_RATES.points, _LEAST_THETA)
    belief = np.stack([_belief(statistics.chances, rate) for rate in theta])
    worth = np.einsum("txy,rtqy->rtqx", belief, np.exp(seen.worth), optimize=True)
    # A contiguous table is read without a copy.
    return BacklogTables(seen.row, np.ascontiguousarray(np.log(worth)), seen.service)


def _belief(chances: ArrivalChances, theta: float) -> FloatArray:
    """Weights of the backlogs k * _LOADS after _LOADS rounds, ``[rounds, loads]``."""
    rounds, part = split_coordinate(_LOADS.points, 1 << 30)
    wanted = np.unique(np.concatenate([rounds, rounds + 1]))
    short = wanted[wanted <= _LONG]
    sums = _sums_over_rounds(chances, theta, short)
    scale = backlog_scale(np.array(theta))
    backlogs = _load_weights(np.arange(sums.shape[1]) / scale, sums)
    means = wanted[short.size :] * theta / scale
    later = np.concatenate([_load_weights(mean[None], np.ones((1, 1))) for mean in means])
    weights = np.concatenate([backlogs, later])
    low = weights[np.searchsorted(wanted, rounds)]
    high = weights[np.searchsorted(wanted, rounds + 1)]
    out: FloatArray = low + part[:, None] * (high - low)
    return out


def _sums_over_rounds(chances: ArrivalChances, theta: float, rounds: IntArray) -> FloatArray:
    """Probability of each sum of arrivals over these numbers of rounds, ``[rounds, sums]``."""
    largest = arrivals_at_most(chances, np.array([theta]), 1e-6)[0]
    size = 1 << int(np.ceil(np.log2(theta * _LONG + 8 * largest + 64)))
    single = np.zeros(size)
    single[: largest + 1] = chances(np.array([theta]), int(largest))[0]
    waves = np.fft.rfft(single / single.sum())
    sums = np.clip(np.fft.irfft(waves ** rounds[:, None], size, axis=1), 0.0, None)
    out: FloatArray = sums / sums.sum(axis=1, keepdims=True)
    return out


def _load_weights(load: FloatArray, probability: FloatArray) -> FloatArray:
    """Divide backlogs / k (rising) between the points of _LOADS beside them: [X, backlogs] to [X, loads]."""
    points = _LOADS.points
    load = np.minimum(load, points[-1])
    cell = np.minimum(np.searchsorted(points, load, side="right") - 1, points.size - 2)
    upper = (load - points[cell]) / (points[cell + 1] - points[cell])
    cells, first = np.unique(cell, return_index=True)
    out = np.zeros((probability.shape[0], points.size))
    out[:, cells] += np.add.reduceat(probability * (1 - upper), first, axis=1)
    out[:, cells + 1] += np.add.reduceat(probability * upper, first, axis=1)
    return out
