"""Priors of a rate (``fw.priors``): Gamma densities, possibly truncated."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedwave.errors import check_number
from fedwave.types import FloatArray

_MOST = 1e15  # larger numbers would swallow what is counted


class Prior(ABC):
    """A Gamma prior of a rate, theta^(shape - 1) exp(-rate theta), on [low, high]: conjugate to Poisson counts.

    Derive a frozen dataclass and give it ``name``, ``shape`` and ``rate``; ``low`` and ``high`` truncate it.

    >>> import fedwave as fw
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> @dataclass(frozen=True)
    ... class Uniform(fw.priors.Prior):
    ...     name, shape, rate, high = "uniform", 1.0, 0.0, 20.0
    >>> Uniform().log_density(np.array([3.0, 30.0])).tolist()
    [0.0, -inf]
    """

    family: ClassVar[str] = "prior"
    name: ClassVar[str]

    shape: float
    rate: float
    low: float = 0.0
    high: float = np.inf

    def log_density(self, theta: FloatArray) -> FloatArray:
        """log density at each rate, up to a constant; -inf outside [low, high]."""
        inside = (theta >= self.low) & (theta <= self.high)
        return np.where(inside, (self.shape - 1) * np.log(theta) - self.rate * theta, -np.inf)


@dataclass(frozen=True)
class Jeffreys(Prior):
    """theta^(-1/2), improper until the first count; until then the rate is taken as 1.

    >>> import fedwave as fw
    >>> fw.scheduler("balsa").prior
    Jeffreys()
    """

    name, shape, rate = "jeffreys", 0.5, 0.0


@dataclass(frozen=True)
class Gamma(Prior):
    """Gamma(shape, rate): as if ``shape`` shards had been counted over ``rate`` rounds before.

    >>> import fedwave as fw
    >>> fw.scheduler("balsa", prior=fw.priors.Gamma(shape=6, rate=2)).prior
    Gamma(shape=6, rate=2)
    """

    name = "gamma"

    shape: float = 1.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        for name in ("shape", "rate"):
            check_number(f"Gamma {name}", getattr(self, name), "> 0", f"<= {_MOST:g}")


@dataclass(frozen=True)
class Truncated(Prior):
    """Another prior, restricted to rates between ``low`` and ``high``.

    >>> import fedwave as fw
    >>> fw.scheduler("balsa:prior=truncated:low=1;high=10").prior
    Truncated(low=1, high=10, prior=Jeffreys())
    """

    name = "truncated"

    low: float = 0.1
    high: float = 20.0
    prior: Jeffreys | Gamma = field(default_factory=Jeffreys)

    def __post_init__(self) -> None:
        check_number("Truncated low", self.low, ">= 0")
        check_number("Truncated high", self.high, f"> {float(self.low)}", f"<= {_MOST:g}")

    @property
    def shape(self) -> float:  # type: ignore[override]
        return self.prior.shape

    @property
    def rate(self) -> float:  # type: ignore[override]
        return self.prior.rate
