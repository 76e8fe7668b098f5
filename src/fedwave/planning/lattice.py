"""How backlogs are laid out for solving: how far, in which units, and which problems together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.types import FloatArray, IntArray

_AT_ONCE = 1 << 21  # numbers held for a batch: it stays small enough for the caches
_FEW = 1 << 16  # below this, sweeping problems of different sizes together costs the least


@dataclass(frozen=True)
class Effort:
    """How carefully a problem is solved."""

    tail: float  # chance of arrivals beyond those told apart
    points: int  # lattice points; the unit of the backlog grows where more would be needed
    doubt: float  # the share of g that cutting n off may cost before twice as many points are taken
    saving: float  # the share of C that a better policy must save to be looked for


FINE = Effort(tail=1e-12, points=2048, doubt=1e-7, saving=1e-12)
MEDIUM = Effort(tail=1e-8, points=256, doubt=1e-3, saving=1e-8)
COARSE = Effort(tail=1e-5, points=96, doubt=np.inf, saving=1e-3)


def lattice(
    mean: FloatArray, theta: FloatArray, price: FloatArray, most: IntArray, steady: bool, effort: Effort
) -> tuple[FloatArray, IntArray]:  # fmt: skip
    """Unit and number of points: far enough for the backlog that pays and for all the failures after it."""
    with np.errstate(divide="ignore"):
        failures = np.log(effort.tail) / np.log1p(-np.minimum(mean, 1.0))
    pays = np.sqrt(2 * theta * price)  # where arrivals and uploads are certain
    shards = 1.25 * pays + theta * (2 + failures) + most / 8
    if steady:
        unit = np.maximum(theta, shards / effort.points)
    else:
        widest = np.maximum(shards, most) / effort.points
        unit = 2.0 ** np.ceil(np.log2(np.maximum(widest, 1.0)))
    points = np.maximum(np.ceil(shards / unit).astype(np.int64) + 8, 32)
    return unit, points


def batches(which: IntArray, points: IntArray, span: FloatArray) -> list[IntArray]:
    """Problems of about the same size together; few small ones all together."""
    order = which[np.lexsort((span[which], points[which]))]
    out, start = [], 0
    while start < order.size:
        rest = order[start:]
        width = points[rest] + np.maximum.accumulate(span[rest]) + 2
        room = 4 * width * np.arange(1, rest.size + 1)
        fits = (room <= _FEW) | ((room <= _AT_ONCE) & (points[rest] <= 1.25 * points[rest[0]]))
        count = max(1, int(np.argmin(np.append(fits, False))))
        out.append(rest[:count])
        start += count
    return out
