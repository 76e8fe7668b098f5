"""Availability: in which rounds each device is there. A device that is away neither trains nor transmits."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedwave.errors import FedwaveError, as_int, check_bool, check_number
from fedwave.files.tables import read_array
from fedwave.network.random_part import RandomPart
from fedwave.network.recorded import Recorded, as_record
from fedwave.rng import Block
from fedwave.types import BoolArray


class Availability(RandomPart):
    """Base class of availability models: which devices are there in a round.

    The access point knows the available devices when it decides, and picks only among them. A device that is away does
    not train, and its delay grows. Its arrivals meanwhile are lost; with ``arrivals_while_away`` they count as arrivals
    of the first round back.

    A model of your own defines ``sample``. It sets ``independent = False`` if rounds depend on each other, and
    ``shared = True`` if it draws no random numbers.

    >>> import fedwave as fw
    >>> import numpy as np
    >>> class EveryOther(fw.availability.Availability):
    ...     name, shared = "every-other", True
    ...
    ...     def sample(self, block, carry):
    ...         rounds = block.first + np.arange(block.rounds)
    ...         there = (rounds[:, None, None] + np.arange(block.devices)) % 2 == 1
    ...         return np.broadcast_to(there, (block.rounds, len(block.ids), block.devices)), None
    >>> trace = fw.simulate(fw.paper_network(availability=EveryOther()), "age", rounds=4, instances=2)
    >>> trace.available[:, 0, :4].astype(int)
    array([[1, 0, 1, 0],
           [0, 1, 0, 1],
           [1, 0, 1, 0],
           [0, 1, 0, 1]])
    """

    family: ClassVar[str] = "availability"

    independent: ClassVar[bool] = True  # are the rounds independent of each other?
    arrivals_while_away: bool = False  # do they count as arrivals of the first round back?

    @abstractmethod
    def sample(self, block: Block, carry: Any) -> tuple[BoolArray, Any]:
        """Returns which devices are there, ``[B, I, U]``, and the carry for the next block; see ``Fading.sample``."""


@dataclass(frozen=True)
class Always(Availability):
    """All devices are there in every round."""

    name = "always"
    shared: ClassVar[bool] = True

    def sample(self, block: Block, carry: Any) -> tuple[BoolArray, Any]:
        return np.ones((block.rounds, block.ids.size, block.devices), dtype=np.bool_), None


@dataclass(frozen=True)
class OnOff(Availability):
    """Devices come and go: a Markov chain for each device, in its long-run distribution from round 1.

    A device stays for ``mean_on`` rounds on average and is away for ``mean_off``; both times are geometric.

    >>> import fedwave as fw
    >>> net = fw.paper_network(availability="on-off:mean_on=30,mean_off=10")
    >>> trace = fw.simulate(net, "max-weight", rounds=400, instances=5)
    >>> print(trace.available.mean().round(1))
    0.7
    >>> bool((trace.scheduled & ~trace.available).any())
    False
    """

    name = "on-off"

    mean_on: float = 20.0
    mean_off: float = 5.0
    arrivals_while_away: bool = False
    independent: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("mean_on", "mean_off"):
            check_number(f"OnOff {name}", getattr(self, name), ">= 1", note=" (rounds)")
        check_bool("OnOff arrivals_while_away", self.arrivals_while_away)

    def sample(self, block: Block, carry: Any) -> tuple[BoolArray, Any]:
        luck = block.draw(lambda rng, shape: rng.random(shape))
        there = np.empty(luck.shape, dtype=np.bool_)
        before = carry
        for k in range(block.rounds):
            if before is None:
                before = luck[k] < self.mean_on / (self.mean_on + self.mean_off)
            else:
                before = np.where(before, luck[k] >= 1 / self.mean_on, luck[k] < 1 / self.mean_off)
            there[k] = before
        return there, before


@dataclass(frozen=True)
class Timetable(Availability):
    """Devices sleep by a timetable: each is there in the first ``awake`` rounds of every ``period``.

    With ``staggered``, the periods of the U devices begin one after another, spread evenly.

    >>> import fedwave as fw
    >>> net = fw.random_network(4, slots=1, availability="timetable:period=4,awake=2")
    >>> fw.simulate(net, "age", rounds=4, instances=1).available[:, 0].astype(int)
    array([[1, 0, 0, 1],
           [1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    """

    name = "timetable"
    shared: ClassVar[bool] = True

    period: int = 24
    awake: int = 8
    staggered: bool = True
    arrivals_while_away: bool = False

    def __post_init__(self) -> None:
        as_int("Timetable period", self.period, 1)
        as_int("Timetable awake", self.awake, 1, self.period)
        check_bool("Timetable staggered", self.staggered)
        check_bool("Timetable arrivals_while_away", self.arrivals_while_away)

    def sample(self, block: Block, carry: Any) -> tuple[BoolArray, Any]:
        rounds = block.first - 1 + np.arange(block.rounds)
        begins = np.arange(block.devices) * self.period // block.devices if self.staggered else np.zeros(1, np.int64)
        there = (rounds[:, None, None] - begins) % self.period < self.awake
        return np.broadcast_to(there, (block.rounds, block.ids.size, block.devices)), None


@dataclass(frozen=True, eq=False, repr=False)
class RecordedAvailability(Recorded, Availability):
    """Recorded availability, 1 where a device is there and else 0: ``[T, U]``, or ``[T, I, U]`` by instance.

    A run may not be longer than the record. The text form names a file: "recorded:path=there.csv".
    """

    name, what = "recorded", "availability"

    there: BoolArray
    arrivals_while_away: bool = False
    independent: ClassVar[bool] = False

    @classmethod
    def from_file(cls, path: str, arrivals_while_away: bool = False) -> RecordedAvailability:
        """Reads a .npy file, or a .csv file with a line per round and a column per device."""
        return cls(read_array(path, f"the record of {cls.what}"), arrivals_while_away)

    def __post_init__(self) -> None:
        check_bool("RecordedAvailability arrivals_while_away", self.arrivals_while_away)
        there = as_record(self.there, np.float64, "recorded availability")
        if not np.isin(there, (0, 1)).all():
            raise FedwaveError(
                f"recorded availability holds {there[~np.isin(there, (0, 1))][0]:g}, must be 0 (away) or 1 (there)."
            )
        there = there.astype(np.bool_)
        there.flags.writeable = False
        object.__setattr__(self, "there", there)

    def sample(self, block: Block, carry: Any) -> tuple[BoolArray, Any]:
        return self.rounds_of(block), None
