"""Problems that can be solved exactly: a few devices, a few channel levels, any distribution of arrivals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedwave.errors import FedwaveError, as_int, short_repr
from fedwave.network.arrivals import Arrivals, Poisson
from fedwave.network.network import Network
from fedwave.parts import registry
from fedwave.planning.exact_model import ExactRound, check_size, reduced_levels, sufficient_truncation
from fedwave.types import FloatArray, IntArray

SOLVER_ARRAYS = 30  # additional arrays in memory while the equations of a fixed policy are solved
_POISSON = Poisson()  # the default; a frozen part can be shared
_RARE = 1e-4  # probability of a backlog beyond the first truncation that is tried


@dataclass(frozen=True, eq=False)
class ExactProblem:
    """A network of a few devices that can be solved exactly.

    Parameters:

    * ``rates``: theta, ``[U]``
    * ``success_levels``: the values ``[U, K]`` from which p is drawn in every round, all equally likely
    * ``slots``: W
    * ``arrivals``: a distribution, as an object or a text
    * ``truncation``: the largest backlog, one for all or one per device; None searches for a truncation that hardly
      changes the result

    >>> import fedwave as fw
    >>> fw.theory.ExactProblem([1, 5], [[0.7], [0.7]], slots=1).size
    2
    """

    rates: FloatArray | Sequence[float]
    success_levels: FloatArray | Sequence[Sequence[float]]
    slots: int = 1
    arrivals: registry.Spec | Arrivals = _POISSON
    truncation: int | Sequence[int] | None = None

    def __post_init__(self) -> None:
        rates = _checked("rates", self.rates, 1, 0, np.inf)
        levels = _checked("success_levels", self.success_levels, 2, 0, 1)
        if levels.shape[0] != rates.size:
            raise FedwaveError(
                f"success_levels has {levels.shape[0]} rows but rates has {rates.size} devices: "
                "give one row of levels per device."
            )
        slots = as_int("slots (W)", self.slots, 1)
        if slots > rates.size:
            raise FedwaveError(f"slots (W) is {slots} but there are only {rates.size} devices: W must not exceed them.")
        for u in np.flatnonzero((levels.max(axis=1) == 0) & (rates > 0)):
            raise FedwaveError(
                f"device {u + 1} never succeeds, so its backlog has no finite mean: give it a level above 0."
            )
        object.__setattr__(self, "rates", rates)
        object.__setattr__(self, "success_levels", np.sort(levels, axis=1))
        object.__setattr__(self, "slots", slots)
        object.__setattr__(self, "truncation", _cuts(self.truncation, rates.size))
        object.__setattr__(self, "arrivals", registry.build("arrivals", self.arrivals))

    @property
    def size(self) -> int:
        """U, the number of devices."""
        return int(np.size(self.rates))

    @property
    def theta(self) -> FloatArray:
        """The rates as an array."""
        return np.asarray(self.rates)

    @property
    def levels(self) -> FloatArray:
        """The levels as an array, rising."""
        return np.asarray(self.success_levels)

    def cuts(self) -> IntArray:
        """The given truncation, or the first one to try."""
        if self.truncation is not None:
            return np.asarray(self.truncation)
        return sufficient_truncation(self.theta, self.levels.mean(axis=1), self.slots, _RARE)

    def chances(self, device: int, most: int) -> FloatArray:
        """P[m = 0], ..., P[m = most] of one device."""
        assert isinstance(self.arrivals, Arrivals)
        return self.arrivals.chances(self.theta[device], most)

    def round_(self, cuts: IntArray) -> ExactRound:
        """The model of a round with backlogs cut at ``cuts``; raises FedwaveError if it is too large."""
        check_size("value iteration", cuts, self.levels, self.slots, SOLVER_ARRAYS)
        one = np.ones((1, self.size))
        return ExactRound.of(self.levels, self.slots, cuts + 1, one, lambda _, u, most: self.chances(u, most))


def exact_problem(network: Network, levels: int = 8, truncation: int | Sequence[int] | None = None) -> ExactProblem:
    """A network with its channels reduced to ``levels`` different p per device with the same mean."""
    if not isinstance(network.slots, int):
        raise FedwaveError(
            f"slots is {short_repr(network.slots)}, must be one W: the optimum needs the same in every round."
        )
    if np.isfinite(network.table.buffer_limit).any():
        raise FedwaveError(
            "buffer limits are not part of the exact optimum: remove buffer_limit, or describe the network "
            "as an ExactProblem whose truncation is the limit."
        )
    if not network.always_available:
        raise FedwaveError(
            f"availability is {network.availability!r}, but the optimum needs devices that are always there: remove it."
        )
    count = as_int("levels", levels, 1)
    table = reduced_levels(network.planning, count, "value iteration")
    return ExactProblem(network.rates, table, network.slots, network.arrivals, truncation)


def _checked(what: str, values: object, axes: int, low: float, high: float) -> FloatArray:
    try:
        out = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise FedwaveError(f"{what} is {values!r}, must be numbers in rows of one length.") from None
    if out.ndim != axes or out.size == 0:
        wanted = "one number per device" if axes == 1 else "one row of numbers per device"
        raise FedwaveError(f"{what} has shape {out.shape}, must be {wanted}.")
    fine = (out >= low) & (out <= high) & np.isfinite(out)
    if not fine.all():
        raise FedwaveError(f"{what} holds {out[~fine][0]:g}, must lie between {low:g} and {high:g}.")
    out.flags.writeable = False
    return out


def _cuts(truncation: int | Sequence[int] | None, devices: int) -> tuple[int, ...] | None:
    if truncation is None:
        return None
    one = np.ndim(truncation) == 0
    each = [truncation] * devices if one else list(truncation)  # type: ignore[arg-type]
    if len(each) != devices:
        raise FedwaveError(
            f"truncation has {len(each)} values for {devices} devices: give one number, or one per device."
        )
    return tuple(as_int("truncation", n, 0) for n in each)
