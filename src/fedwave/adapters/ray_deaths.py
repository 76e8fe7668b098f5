"""Tasks that brought no answer: whose fault was it, and is the unit worth another try?"""

from __future__ import annotations

from collections import Counter
from typing import Any

from fedwave.errors import FedwaveError
from fedwave.experiments.run.units import Unit
from fedwave.version import __version__

_CRASHES = 3  # of workers at the same unit before it is given up
_LOSSES = 10  # of nodes under the same unit: not its fault, but nobody waits forever
_NOT_THERE = "No module named 'fedwave"


class Deaths:
    """Counts how often the worker or the node of each unit died."""

    def __init__(self, exceptions: Any) -> None:
        self._exceptions = exceptions  # ray.exceptions
        self._crashes: Counter[str] = Counter()
        self._losses: Counter[str] = Counter()

    def died(self, unit: Unit, error: Exception) -> str:
        """What happened, if another try is worth it; otherwise it raises."""
        known = self._exceptions
        if isinstance(error, known.RayTaskError):
            raise error  # the task did begin, but cannot be read there: so it would be again and again
        if isinstance(error, (known.WorkerCrashedError, known.OutOfMemoryError)):
            deaths, most, what = self._crashes, _CRASHES, "its worker ended"
            hint = "is there too little memory? Try a smaller block, or fewer units at once."
        elif isinstance(error, (known.NodeDiedError, known.ObjectLostError, known.RaySystemError)):
            deaths, most, what = self._losses, _LOSSES, "its node was lost"
            hint = "look at the cluster with `ray status`."
        else:
            raise error
        name = type(error).__name__
        deaths[unit.name] += 1
        if deaths[unit.name] >= most:
            raise FedwaveError(
                f"unit {unit.name} is given up: {what} {most} times ({name}); {hint}"
            ) from None
        return f"{what} ({name})"


def trouble(error: Exception) -> FedwaveError:
    """A sentence about what another try would not end."""
    if _NOT_THERE in str(error):
        return FedwaveError(
            f"fedwave is not installed on a node of the Ray cluster: install fedwave {__version__} there, "
            "in the Python that Ray was started with."
        )
    *_, last = ["", *str(error).strip().splitlines()]
    reason = last.strip().split(". ")[0].rstrip(".")
    return FedwaveError(
        f"the Ray cluster cannot go on ({type(error).__name__}: {reason}): see to it, and resume the run."
    )
