"""An aggregation rule with a memory: FedBuff with a server momentum."""

from dataclasses import dataclass

import numpy as np

import fedwave as fw


@fw.register
@dataclass(frozen=True)
class BufferedMomentum(fw.aggregation.Aggregation):
    """Collect ``size`` uploads, each weighted by 1 / sqrt(d); their mean moves w with momentum."""

    size: int = 5
    momentum: float = 0.5
    beta: float = 1.0
    cap: float | None = None
    name = "buffered-momentum"

    def weights(self, uploads):
        return np.where(uploads.delivered, uploads.delay**-0.5, 0.0)

    def start(self, zero):
        return {"sum": zero, "count": zero[:1], "speed": zero}

    def server_step(self, memory, update, uploads):
        total = memory["sum"] + update
        count = memory["count"] + int(np.count_nonzero(uploads.delivered))
        if count < self.size:
            return {**memory, "sum": total, "count": count}, 0 * update
        speed = self.momentum * memory["speed"] + total / count
        return {"sum": 0 * total, "count": 0 * count, "speed": speed}, speed
