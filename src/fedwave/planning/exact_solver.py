"""The best decisions of a small network by relative value iteration, and the tables that hold them.

g + h(n) = E_p[ min over decisions of E[B' + h(n')] ]: g is the least mean backlog, h (0 where nothing waits) the
price of starting with more. From any h, g lies between the least and the largest of what one more round adds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.planning.exact_model import SmallRound, incidence, products
from fedwave.types import FloatArray, IntArray

_MOST_SWEEPS = 20_000
_PLAIN_SWEEPS = 200


@dataclass(frozen=True, eq=False)
class Table:
    """What the best decision gains from delivering, in every state: the G_S of small_network.py."""

    gains: FloatArray  # [S, N_1 + 1, ..., N_U + 1]
    step: FloatArray  # [U] shards between neighbouring states
    slots: int
    average: float  # g
    spread: float  # g is known to half of this
    bias: FloatArray  # h

    def decision_gains(self, p: FloatArray, waiting: IntArray) -> FloatArray:
        """What every decision gains on transmitting nothing, ``[rows, A]``, at p and n ``[rows, U]``."""
        return decision_gains(p, self.at(waiting), self.slots)

    def at(self, waiting: IntArray) -> FloatArray:
        """The gains ``[rows, S]`` at n ``[rows, U]``: between states by interpolation, beyond the last as there."""
        last = np.array(self.gains.shape[1:]) - 1
        place = np.minimum(waiting / self.step, last)
        low = np.minimum(place.astype(np.int64), np.maximum(last - 1, 0))
        share = place - low
        if not share.any():
            return self._in(low).T
        out = np.zeros((self.gains.shape[0], waiting.shape[0]))
        for corner in np.ndindex(*(2,) * last.size):
            up = np.array(corner)
            weight = np.prod(np.where(up == 1, share, 1 - share), axis=1)
            out += weight * self._in(np.minimum(low + up, last))
        return out.T

    def _in(self, states: IntArray) -> FloatArray:
        out: FloatArray = self.gains[(slice(None), *states.T)]
        return out


def decision_gains(p: FloatArray, gains: FloatArray, slots: int) -> FloatArray:
    """What every decision gains, ``[rows, A]``, from p ``[rows, U]`` and the gains of subsets ``[rows, S]``."""
    weighted, inside = products(p, slots) * gains, incidence(p.shape[-1], slots)
    return np.stack([weighted[:, within].sum(axis=1) for within in inside], axis=1)


def gains_at(tables: Sequence[Table], waiting: IntArray) -> FloatArray:
    """The same as Table.at with a table for each row, all of one shape."""
    last = np.array(tables[0].gains.shape[1:]) - 1
    place = np.minimum(waiting / np.stack([table.step for table in tables]), last)
    low = np.minimum(place.astype(np.int64), np.maximum(last - 1, 0))
    share = place - low
    cells = np.stack(  # of every row the corners around it, [rows, S, 2, ..., 2]
        [
            table.gains[(slice(None), *(slice(k, k + 2) for k in corner))]
            for table, corner in zip(tables, low.tolist(), strict=True)
        ]
    )
    for u in reversed(range(last.size)):
        up = share[:, u].reshape(-1, *(1,) * (cells.ndim - 2))
        cells = cells[..., 0] * (1 - up) + cells[..., -1] * up
    return cells


def best_tables(round_: SmallRound, steps: FloatArray, tolerance: float, name: str) -> list[Table]:
    """Solve a batch of networks until each knows its g to ``tolerance``; ``steps`` is ``[B, U]``.

    Each network stops by itself, so that its answer does not depend on the company it is solved in.
    """
    bias = np.zeros_like(round_.backlog)
    waiting = np.arange(bias.shape[0])
    out: dict[int, Table] = {}
    states = math.prod(bias.shape[1:])
    for number in range(_MOST_SWEEPS):
        values = round_.deliveries(round_.backlog + bias)
        gains = round_.gains(values)
        new = values[()] - round_.expected_best(gains)
        added = (new - bias).reshape(-1, states)
        low, high = added.min(axis=1), added.max(axis=1)
        done = high - low <= tolerance * np.maximum(1.0, high)
        for b in np.flatnonzero(done):
            which, of_this = int(waiting[b]), np.stack([part[b] for part in gains])
            g, spread = float(low[b] + high[b]) / 2, float(high[b] - low[b])
            # A copy: a view would keep all of the batch in memory.
            out[which] = Table(of_this, steps[which], round_.slots, g, spread, bias[b].copy())
        if done.all():
            return [out[b] for b in range(len(out))]
        # A network that goes round in circles (fixed arrivals, p = 1) settles only if it is slowed down.
        bias = new if number < _PLAIN_SWEEPS else (new + bias) / 2
        nothing_waits = bias.reshape(-1, states)[:, 0]
        bias = bias - nothing_waits.reshape(-1, *(1,) * round_.devices)
        if done.any():
            round_, bias, waiting = round_.rows(~done), bias[~done], waiting[~done]
    raise FedwaveError(
        f"{name} did not settle within {_MOST_SWEEPS} sweeps: a device may hardly ever get through; "
        "leave it out, or allow a larger tolerance."
    )
