"""Units that wait for a worker, and whether a unit whose worker crashed is retried or abandoned.

A unit that ran out of memory is retried once, after all others and with no other unit beside it. An abandoned unit
does not end the run: the others go on, and `fedwave resume` tries it again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

from fedwave.experiments.config.units import Unit

ALIKE = 3  # units of the same schedulers in a row that fail alike before the others are not tried
# How often each may happen to a unit before it is abandoned: too little memory, and the loss of its worker.
LIMITS = {"memory": 2, "crashed": 3}
LOWER = "lower block, or make the experiment smaller"


class Queue:
    """The units that no worker does now; those that ran out of memory are last."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._waiting = deque(units)
        self._crashes: Counter[tuple[str, str]] = Counter()  # by the unit's name, and what happened
        self._failed: dict[object, tuple[str, int]] = {}  # the last reason, and how often in a row

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self, at_work: Sequence[Unit] = ()) -> Unit | None:
        """The next unit, if it may begin beside those at work."""
        if not self._waiting or (at_work and any(map(self._needs_all_memory, (*at_work, self._waiting[0])))):
            return None
        return self._waiting.popleft()

    def put_back(self, unit: Unit) -> None:
        """It goes on as soon as there is a worker."""
        if self._needs_all_memory(unit):
            self._waiting.append(unit)
        else:
            self._waiting.appendleft(unit)

    def crashed(self, unit: Unit, kind: str, cause: str) -> str | None:
        """Its worker is gone: None if the unit is retried, or why it is abandoned. ``kind`` is one of LIMITS."""
        self._crashes[unit.name, kind] += 1
        if self._crashes[unit.name, kind] < LIMITS[kind]:
            self.put_back(unit)
            return None
        if kind == "memory":
            return f"its worker ended ({cause}), also with no other beside it: is there too little memory? Then {LOWER}"
        return f"it crashed {LIMITS[kind]} workers ({cause})"

    def succeeded(self, unit: Unit) -> None:
        """It is finished, so others like it may be too."""
        self._failed.pop(_kind(unit), None)

    def failed(self, unit: Unit, why: str) -> list[Unit]:
        """It failed by itself. Returns what is abandoned: the third that fails alike takes the others with it."""
        before, times = self._failed.get(_kind(unit), (why, 0))
        times = times + 1 if why == before else 1
        self._failed[_kind(unit)] = why, times
        if times < ALIKE:
            return [unit]
        like_it = [one for one in self._waiting if _kind(one) == _kind(unit)]
        self._waiting = deque(one for one in self._waiting if _kind(one) != _kind(unit))
        return [unit, *like_it]

    def _needs_all_memory(self, unit: Unit) -> bool:
        return self._crashes[unit.name, "memory"] > 0


def _kind(unit: Unit) -> object:
    """What units that differ only in their instances have in common."""
    return unit.point, unit.schedulers


def no_round_in(timeout: float, unit: Unit) -> str:
    """Why a unit is abandoned that works, or waits, and finishes no round."""
    names = ", ".join(unit.schedulers)
    return f"no round of {names} was finished in {timeout:g} s: raise --timeout if one takes longer"
