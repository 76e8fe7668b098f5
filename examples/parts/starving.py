"""A round metric with a memory: how many devices were out of touch at once, at worst."""

from dataclasses import dataclass

import numpy as np

import fedwave as fw


@fw.register
@dataclass(frozen=True)
class Starving(fw.Metric):
    """The largest number of devices so far that had not been heard for more than ``limit`` rounds."""

    limit: int = 10
    name, label = "starving", "devices out of touch"
    over_rounds, better = "last", "lower"

    def start(self, problem):
        return {"worst": np.zeros(problem.instances, dtype=np.int64)}

    def measure(self, state, played):
        late = np.count_nonzero(played.before.delay > self.limit, axis=1)
        worst = np.maximum(state["worst"], late)
        return {"worst": worst}, worst
