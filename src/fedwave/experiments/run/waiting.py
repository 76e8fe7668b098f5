"""Units that wait for a worker, and what becomes of one whose worker died.

It is common to the process pool of one machine (pool.py) and to Ray (adapters/ray.py). A unit that ran out of memory
is not begun again the same way: once more, after all others and with nothing beside it, and then it is given up. A
unit that is given up does not end the run: the others go on, and `fedwave resume` tries it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fedwave.experiments.run.units import Unit

ALIKE = 3  # units of the same schedulers in a row that fail alike before the others are not tried
DEATHS = 3  # of workers at the same unit before it is given up
MEMORY_DEATHS = 2  # the same, where memory was the cause
_LOWER = "is there too little memory? Lower block, or make the experiment smaller"


class Waiting:
    """The units that no worker does now."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._next = list(reversed(units))  # the next one is the last
        self._alone: list[Unit] = []  # ran out of memory once
        self._lonely: set[str] = set()  # names of all that ever did
        self._deaths: Counter[str] = Counter()
        self._failed: dict[object, tuple[str, int]] = {}  # the last reason, and how often in a row

    def __bool__(self) -> bool:
        return bool(self._next or self._alone)

    @property
    def only_alone(self) -> bool:
        """Are all that are left to be done without another beside them?"""
        return not self._next and bool(self._alone)

    def look(self, at_work: Sequence[Unit]) -> Unit | None:
        """The unit that may begin beside those at work, if there is one."""
        if any(unit.name in self._lonely for unit in at_work):
            return None
        if self._next:
            return self._next[-1]
        return self._alone[-1] if self._alone and not at_work else None

    def take(self, at_work: Sequence[Unit]) -> Unit | None:
        """The same, and it is no longer waiting."""
        unit = self.look(at_work)
        if unit is not None:
            (self._next or self._alone).pop()
        return unit

    def put_back(self, unit: Unit) -> None:
        """It goes on as soon as there is a worker."""
        (self._alone if unit.name in self._lonely else self._next).append(unit)

    def died(self, unit: Unit, cause: str, *, memory: bool) -> str | None:
        """Its worker died: None if the unit waits for another one, or why it is given up."""
        again = unit.name in self._lonely
        self._deaths[unit.name] += 1
        if memory:
            self._lonely.add(unit.name)
            if again:
                return f"its worker ended ({cause}), also with no other beside it: {_LOWER}"
        elif self._deaths[unit.name] >= DEATHS:
            return f"it has ended {DEATHS} workers ({cause})"
        self.put_back(unit)
        return None

    def succeeded(self, unit: Unit) -> None:
        """It is finished, so others like it may be too."""
        self._failed.pop(_kind(unit), None)

    def failed(self, unit: Unit, why: str) -> list[Unit]:
        """It failed by itself; returns the units that are given up with it, since it is the third to fail alike."""
        before, times = self._failed.get(_kind(unit), (why, 0))
        times = times + 1 if why == before else 1
        self._failed[_kind(unit)] = why, times
        if times < ALIKE:
            return []
        left = [one for one in (*reversed(self._next), *self._alone) if _kind(one) == _kind(unit)]
        self._next = [one for one in self._next if one not in left]
        self._alone = [one for one in self._alone if one not in left]
        return left


def _kind(unit: Unit) -> object:
    """What units that differ only in their instances have in common."""
    return unit.point, unit.schedulers


def no_round_in(timeout: float, unit: Unit) -> str:
    """Why a unit is given up that works, or waits, and finishes no round."""
    names = ", ".join(unit.schedulers)
    return f"no round of {names} was finished in {timeout:g} s: raise --timeout if one takes longer"
