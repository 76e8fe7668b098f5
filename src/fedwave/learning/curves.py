"""What training showed, round by round; arrays ``[T, I]``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedwave.types import BoolArray, FloatArray, IntArray

# A spike: training loss above 1.2 times the median of the ten rounds before.
_SPIKE, _WINDOW = 1.2, 10


@dataclass(frozen=True, eq=False)
class Curves:
    """Training of one scheduler. A run that diverged is NaN from that round on."""

    label: str
    loss: FloatArray  # [T, I] training loss of the central model
    accuracy: FloatArray  # [T, I] test accuracy
    class_accuracy: FloatArray  # [T, I, classes]
    settings: Mapping[str, Any]  # how it was trained, for the caption and for making it again
    full_accuracy: FloatArray | None = None  # [T, I] on all test images; NaN in rounds without

    @classmethod
    def of(
        cls,
        label: str,
        runs: Sequence[Sequence[tuple[float, Any]]],
        rounds: int,
        settings: Mapping[str, Any],
    ) -> Curves:
        """From what the Evaluator said after every round of every instance."""
        classes = next((run[0][1].shape[1] for run in runs if run), 0)
        loss = np.full((rounds, len(runs)), np.nan)
        accuracy, full = loss.copy(), loss.copy()
        by_class = np.full((rounds, len(runs), classes), np.nan)
        for i, run in enumerate(runs):
            for t, (value, counts) in enumerate(run):
                if np.isfinite(value):
                    right, images, right_of_all, all_images = np.asarray(counts)
                    loss[t, i] = value
                    accuracy[t, i] = right.sum() / images.sum()
                    by_class[t, i] = right / np.maximum(images, 1)
                    if all_images.any():
                        full[t, i] = right_of_all.sum() / all_images.sum()
        return cls(label, loss, accuracy, by_class, settings, full)

    @property
    def diverged(self) -> IntArray:
        """The round in which each instance diverged, ``[I]``; 0: it did not."""
        bad = ~np.isfinite(self.loss)
        first: IntArray = np.where(bad.any(axis=0), bad.argmax(axis=0) + 1, 0)
        return first

    def spikes(self) -> IntArray:
        """How many rounds of each instance were spikes, ``[I]``."""
        count = np.zeros(self.loss.shape[1], dtype=np.int64)
        for t in range(_WINDOW, self.loss.shape[0]):
            count += self.loss[t] > _SPIKE * np.median(self.loss[t - _WINDOW : t], axis=0)
        return count

    def reaches(self, target: float) -> BoolArray:
        """Does the final accuracy beat the target, ``[I]``? A diverged instance does not."""
        beats: BoolArray = np.nan_to_num(self.accuracy[-1], nan=-1.0) > target
        return beats

    def rounds_to(self, target: float, in_a_row: int = 3) -> FloatArray:
        """First round from which ``in_a_row`` accuracies beat the target, ``[I]``; inf: never."""
        above = np.nan_to_num(self.accuracy, nan=-1.0) > target
        out = np.full(above.shape[1], np.inf)
        for t in reversed(range(above.shape[0] - in_a_row + 1)):
            out[above[t : t + in_a_row].all(axis=0)] = t + 1
        return out
