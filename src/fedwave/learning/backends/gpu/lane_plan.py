"""Orders lanes of different length when only some fit side by side."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Segment:
    """Steps in which the same lanes are trained, one in each place."""

    lanes: list[int]
    first: list[int]  # the step that each lane is at
    count: int  # steps


def segments(steps: list[int], width: int) -> list[Segment]:
    """The segments of lanes with these numbers of steps, given longest first.

    A finished lane makes room for the next one. Lanes keep their places as long as there are others waiting.

    >>> [(s.lanes, s.first, s.count) for s in segments([3, 2, 2], 2)]
    [([0, 1], [0, 0], 2), ([0, 2], [2, 0], 1), ([2], [1], 1)]
    """
    waiting = [lane for lane, count in enumerate(steps) if count > 0][::-1]
    lanes = [waiting.pop() for _ in range(min(width, len(waiting)))]
    done = [0] * len(steps)
    made = []
    while lanes:
        count = min(steps[lane] - done[lane] for lane in lanes)
        made.append(Segment(list(lanes), [done[lane] for lane in lanes], count))
        for lane in lanes:
            done[lane] += count
        for place in reversed(range(len(lanes))):
            if done[lanes[place]] == steps[lanes[place]]:
                if waiting:
                    lanes[place] = waiting.pop()
                else:
                    lanes[place] = lanes[-1]
                    lanes.pop()
    return made
