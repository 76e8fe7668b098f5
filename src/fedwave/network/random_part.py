"""The base class of the parts of a network that draw random numbers or replay a record."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar, Self


class RandomPart(ABC):
    """Base class of fading, arrival and availability models."""

    family: ClassVar[str]
    name: ClassVar[str]

    @property
    def shared(self) -> bool:
        """Do all instances have the same values, as with one record for all of them?

        A model of your own that draws no random numbers sets ``shared = True``. Confidence intervals then do not count
        its instances as independent.
        """
        return False

    def for_devices(self, names: Sequence[str], size: int) -> Self:
        """Returns the model for the devices of a network: ``names`` is empty or has one each. Logs match by name."""
        return self

    def check_run(self, rounds: int, devices: int, last_instance: int) -> None:
        """Raises FedwaveError if the model cannot cover a run; a record has a number of rounds and devices."""
        return
