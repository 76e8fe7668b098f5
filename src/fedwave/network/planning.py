"""The chances of the coming rounds, as far as they can be known beforehand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.network.arrivals import Arrivals
from fedwave.network.fading import Fading
from fedwave.network.success import SuccessModel
from fedwave.types import FloatArray


@dataclass(frozen=True, eq=False)
class NetworkPlanning:
    """Planning (types.py) for one network."""

    fading: Fading
    success: SuccessModel
    arrivals: Arrivals
    mean_snr: FloatArray  # [U]

    @property
    def independent(self) -> bool:
        return self.fading.independent

    def success_levels(self, mean_snr: FloatArray, count: int) -> FloatArray:
        """p in the middle of each of ``count`` equally likely ranges of the gain."""
        gains = self.fading.sum_quantiles(1, (np.arange(count) + 0.5) / count)
        mean = np.asarray(mean_snr, dtype=np.float64)[..., None]
        return self.success.expected(mean * gains, mean, self.fading)

    def arrival_chances(self, rates: FloatArray, most: int) -> FloatArray:
        return self.arrivals.chances(np.asarray(rates, dtype=np.float64), most)
