"""A small network under fixed decisions: its value, where it spends its time, and what truncation cuts off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.planning.exact_model import Devices, SmallRound, along, decisions
from fedwave.theory.exact_policies import Shares
from fedwave.theory.exact_problem import SOLVER_ARRAYS, SmallProblem
from fedwave.types import FloatArray

_ROOM, _MOST_HELD, _STEPS = 20_000_000, 400, 3000
_SHARPER = 1e-3  # the equations hold in the mean over states, the answer is wanted in all of them


@dataclass(frozen=True, eq=False)
class FixedPolicy:
    """Of every state, how likely it is that exactly the devices in D deliver: all that decisions do to a network."""

    round: SmallRound
    chances: dict[Devices, FloatArray]  # D to [1, N_1 + 1, ..., N_U + 1]

    @classmethod
    def of(cls, round_: SmallRound, shares: Shares) -> FixedPolicy:
        """From the share of each decision, given p."""
        sets = decisions(round_.devices, round_.slots)
        chosen = [tuple(np.flatnonzero(members).tolist()) for members in sets]
        total: dict[Devices, FloatArray] = {}
        for p, chance in round_.channels:
            for who, share in zip(chosen, shares(p), strict=True):
                for k in range(len(who) + 1):
                    for delivered in combinations(who, k):
                        arrive = [p[u] if u in delivered else 1 - p[u] for u in who]
                        part = chance * float(np.prod(arrive)) * share
                        total[delivered] = total.get(delivered, 0.0) + part
        return cls(round_, total)

    def average(self, tolerance: float) -> tuple[float, float, FloatArray]:
        """The mean backlog g, how far off it may be, and h: those of g + h = E[B' + h(n')]."""
        cost = self._before(self.round.backlog)
        # Solved for x = g + h: then x - E[x(n')] + x(0) = E[B'], for h is 0 where nothing waits.
        x = self._solve(lambda h: h - self._before(h) + h.flat[0], cost, _SHARPER * tolerance)
        bias = x - x.flat[0]
        added = cost + self._before(bias) - bias  # the truth lies between the least and the largest
        low, high = float(added.min()), float(added.max())
        return (low + high) / 2, high - low, bias[0]

    def occupation(self) -> FloatArray:
        """The share of time spent in every state: what a round leaves as it is."""
        empty = np.zeros(self.round.backlog.shape)
        empty.flat[0] = 1.0
        # The transpose of the equations above; its solution adds up to 1 by itself.
        return self._solve(lambda x: x - self._after(x) + empty * x.sum(), empty, 1e-10)

    def _solve(
        self, left: Callable[[FloatArray], FloatArray], right: FloatArray, tolerance: float
    ) -> FloatArray:
        # Stepping from round to round would take as many steps as the network takes to forget.
        from scipy.sparse.linalg import LinearOperator, gmres

        shape, size = right.shape, right.size
        operator = LinearOperator(
            (size, size), lambda x: left(x.reshape(shape)).reshape(-1), dtype=np.float64
        )
        # The more arrays it may hold, the fewer steps it takes.
        held = int(np.clip(_ROOM // size, SOLVER_ARRAYS, _MOST_HELD))
        found, failed = gmres(
            operator, right.reshape(-1), rtol=tolerance, atol=0.0, restart=held, maxiter=_STEPS // held
        )  # fmt: skip
        if failed:
            raise FedwaveError(
                "the mean backlog of these decisions cannot be found: they may never serve some device."
            )
        return np.asarray(found).reshape(shape)

    def _before(self, value: FloatArray) -> FloatArray:
        """From a value after the round to what is expected of it before."""
        values = self.round.deliveries(value)
        total = np.zeros(value.shape)
        for delivered, chance in self.chances.items():
            total += chance * values[delivered]
        return total

    def lost(self, problem: SmallProblem) -> FloatArray:
        """Shards per round that find no room below the truncation, ``[U]``."""
        share = np.maximum(self.occupation(), 0.0)
        out = np.zeros(self.round.devices)
        for u in range(out.size):
            kept = sum(share * c for delivered, c in self.chances.items() if u not in delivered)
            others = tuple(v for v in range(share.ndim) if v != u + 1)
            of_backlog = np.asarray(kept).sum(axis=others)
            out[u] = of_backlog @ _overshoot(problem, u, of_backlog.size - 1)
        return out

    def _after(self, share: FloatArray) -> FloatArray:
        """The shares one round later: the transpose of ``_before``."""
        parts = {delivered: chance * share for delivered, chance in self.chances.items()}
        for u in range(self.round.devices):
            joined: dict[Devices, FloatArray] = {}
            for delivered, part in parts.items():
                if u in delivered:
                    moved = np.zeros_like(part)
                    np.moveaxis(moved, u + 1, 0)[0] = part.sum(axis=u + 1)
                else:
                    moved = along(self.round.arrivals[u].transpose(0, 2, 1), part, u)
                rest = tuple(v for v in delivered if v != u)
                joined[rest] = joined[rest] + moved if rest in joined else moved
            parts = joined
        return parts[()]


def _overshoot(problem: SmallProblem, device: int, most: int) -> FloatArray:
    """E[(n + m - N)^+] for n = 0, ..., N: the shards that find no room."""
    chances, counts = problem.chances(device, most), np.arange(most + 1)
    room = most - counts
    unused = np.maximum(room[:, None] - counts, 0) @ chances  # E[(N - n - m)^+]
    out: FloatArray = np.maximum(problem.theta[device] - room + unused, 0.0)
    return out
