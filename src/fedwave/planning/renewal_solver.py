"""Single-device problems with a price per transmission, solved side by side by policy iteration, for any objective.

A state s, the backlog or the delay, grows until an upload succeeds and then starts again. With c(s) the cost of a
round without a delivery and r(s) what a delivery saves in its own round,

    g + v(s) = c(s) + E v(s') - E_p[(p worth(s) - price)^+],    worth(s) = r(s) + E v(s'),    v(first state) = 0,

and the device transmits where p worth(s) > price. One sweep from the largest state down to the first evaluates a
policy, and policy iteration needs a few such sweeps. The sweep is in the file of each objective. Shared are the
iteration, the batches, longer grids for problems whose grid is too short, and the record of solutions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fedwave.planning.channel_levels import Levels
from fedwave.types import Array, BoolArray, FloatArray, IntArray

_MOST_SWEEPS = 60  # a few suffice; more are needed only if rounding errors make a tie alternate


@dataclass(frozen=True, eq=False)
class Solutions:
    """Solutions of B problems; ``joined`` makes the fields."""

    service: FloatArray  # [B] transmissions per round
    error: FloatArray  # [B] by how much the optimum may be off because the largest states are cut off
    cost: FloatArray  # [B] g
    worth: FloatArray  # what a successful upload is worth in each state, all problems one after the other
    start: IntArray  # [B] place of the problem's first state in ``worth``
    length: IntArray  # [B] number of its states

    def worth_at(self, which: IntArray, state: Array) -> FloatArray:
        """The worth in problems ``which`` at these states, delays 1, 2, ... unless overridden; the two are broadcast.

        Beyond the last state it is that of the last.
        """
        return self.worth[self.start[which] + np.minimum(state, self.length[which]) - 1]

    def device_worth(self, which: IntArray, rates: FloatArray, state: Array) -> FloatArray:
        """The worth of devices of classes ``which`` with these rates, ``[U]``, at states ``[I, U]``."""
        return self.worth_at(which, state)


SolutionsT = TypeVar("SolutionsT", bound=Solutions)
# The fields of solutions by name, with the problem on the last axis: ``worth`` is [N, B], the others are [B].
Fields = dict[str, Array]


@dataclass(frozen=True, eq=False)
class IteratedPolicy:
    """Where policy iteration has stopped; N states and B problems."""

    sums: FloatArray  # [N, 3 or 4, B] of the last policy that was evaluated
    cost: FloatArray  # [B] its g
    value: FloatArray  # [N, B] its v
    worth: FloatArray  # [N, B]
    gain: FloatArray  # [N, B] successes of the policy that follows from this worth
    stuck: BoolArray  # [B] that policy does not transmit in the largest state: too few states
    left: FloatArray  # [B] a further sweep would lower g by at most this


def iterate_policy(
    levels: Levels,
    row: IntArray,
    price: FloatArray,
    worth: FloatArray,
    evaluate: Callable[[FloatArray, FloatArray], FloatArray],
    worth_after: Callable[[FloatArray], FloatArray],
    saving: Callable[[FloatArray], FloatArray],
    last_state_keeps: bool = False,
) -> IteratedPolicy:
    """Policy iteration for problems with channels ``row`` and prices ``[B]``, from the policy of a guessed worth.

    ``evaluate(share, gain)``: from every state to the next successful upload the expected sums of the cost without
    the price, of transmissions and of rounds, ``[N, 3, B]``, under the policy that transmits with probability
    ``share`` and succeeds with ``gain``, ``[N, B]`` each. A fourth sum of the objective's own may follow.
    ``worth_after(v)``: the worth in every state. It stops where no state saves more than ``saving(worth)``. A stuck
    problem must still transmit in its largest state: with ``last_state_keeps`` it repeats its last action there, else
    it always transmits.
    """
    always = levels.above(row, np.zeros(row.size), np.ones(row.size))
    share, gain, stuck = _policy(levels, row, price, worth, always)
    for _ in range(_MOST_SWEEPS):
        sums = evaluate(share, gain)
        cost = (sums[0, 0] + price * sums[0, 1]) / sums[0, 2]
        value = sums[:, 0] + price * sums[:, 1] - cost * sums[:, 2]
        worth = worth_after(value)
        share_before, gain_before = share, gain
        instead = (share[-1], gain[-1]) if last_state_keeps else always
        share, gain, stuck = _policy(levels, row, price, worth, instead)
        saved = (gain - gain_before) * worth - price * (share - share_before)
        if np.all(saved <= saving(worth)):
            break
    # A further sweep would lower g by at most its largest saving in any state.
    left = np.maximum(saved, 0.0).max(axis=0)
    return IteratedPolicy(sums, cost, value, worth, gain, stuck, left)


def _policy(
    levels: Levels, row: IntArray, price: FloatArray, worth: FloatArray, instead: tuple[FloatArray, ...]
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """(share, gain) of the levels that pay, ``[N, B]``, and which problems are stuck.

    In the largest state a stuck problem does what ``instead`` says.
    """
    share, gain = levels.above(row, price, worth)
    stuck: BoolArray = gain[-1] <= 0
    share[-1] = np.where(stuck, instead[0], share[-1])
    gain[-1] = np.where(stuck, instead[1], gain[-1])
    return share, gain, stuck


def solve_in_batches(
    states: IntArray,
    cut: Callable[[IntArray, IntArray], list[IntArray]],
    solve: Callable[[IntArray, int], tuple[Fields, BoolArray]],
    growth: int,
    most: int,
) -> Fields:
    """Solve problems that begin with ``states`` ``[B]`` each; where that is too few, with ``growth`` times as many.

    ``cut(which, states)`` divides problems into batches. ``solve(batch, size)`` solves a batch with ``size`` states
    each and says which problems need more; they get at most ``most``. Returns the fields of Solutions.
    """
    parts, places = [], []
    unsolved = np.arange(states.size)
    while unsolved.size:
        again = []
        for batch in cut(unsolved, states):
            size = int(states[batch].max())
            found, poor = solve(batch, size)
            poor = poor & (growth * size <= most)
            parts.append({name: values[..., ~poor] for name, values in found.items()})
            places.append(batch[~poor])
            again.append(batch[poor])
            states[batch[poor]] = growth * size
        unsolved = np.concatenate(again)
    return joined(parts, np.argsort(np.concatenate(places)))


def joined(parts: list[Fields], order: IntArray | slice = slice(None)) -> Fields:
    """The fields of Solutions from those of each batch; ``order`` is that of the problems."""
    length = np.concatenate([np.full(one["service"].size, len(one["worth"])) for one in parts])
    numbers = {name: np.concatenate([one[name] for one in parts]) for name in parts[0] if name != "worth"}
    numbers |= {"length": length, "start": np.cumsum(length) - length}
    worth = np.concatenate([one["worth"].T.ravel() for one in parts])
    return {"worth": worth} | {name: values[order] for name, values in numbers.items()}
