"""A small image task made in memory: shifted smooth patterns under clutter and noise."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy.random import Generator, SeedSequence, default_rng

from fedwave.memory import check_memory
from fedwave.types import IntArray

Images = npt.NDArray[np.float32]

_CLASSES, _SIDE, _KNOTS = 10, 28, 7
# Chosen so that a linear model reaches about 75 % and the MNIST CNN 95 % after ten epochs: a linear model cannot
# follow shifts, and clutter and noise keep both below 100 %.
_SHIFT, _CLUTTER, _NOISE = 5, 0.5, 0.5


def patterns(train: int, test: int, seed: int) -> tuple[Images, IntArray, Images, IntArray]:
    """Images ``[n, 1, 28, 28]`` and labels ``[n]`` of both sets; a set's first images do not depend on its size."""
    need = 3 * 4.0 * _SIDE * _SIDE * (train + test)
    check_memory(f"a synthetic dataset of {train + test:,} images", need, "lower train or test")
    of_classes, of_train, of_test = SeedSequence(seed).spawn(3)
    classes = _smooth(default_rng(of_classes), _CLASSES)
    return *_sample(classes, of_train, train), *_sample(classes, of_test, test)


def _smooth(rng: Generator, count: int) -> Images:
    """Random values on a coarse grid, joined by straight lines along both axes."""
    coarse = rng.standard_normal((count, _KNOTS, _KNOTS), dtype=np.float32)
    distance = np.linspace(0, _KNOTS - 1, _SIDE)[:, None] - np.arange(_KNOTS)
    weights = np.maximum(0, 1 - np.abs(distance)).astype(np.float32)
    fine: Images = weights @ coarse @ weights.T
    return fine


def _sample(classes: Images, source: SeedSequence, count: int) -> tuple[Images, IntArray]:
    """Each image: its class's pattern, moved around the edges, stronger or weaker, under clutter and noise."""
    # A generator for each quantity, so that the first images do not depend on the count.
    which, where, strength, clutter, noise = map(default_rng, source.spawn(5))
    labels = which.integers(_CLASSES, size=count)
    shift = where.integers(-_SHIFT, _SHIFT + 1, size=(count, 2))
    rows, columns = ((np.arange(_SIDE) + shift[:, axis, None]) % _SIDE for axis in (0, 1))
    images = classes[labels[:, None, None], rows[:, :, None], columns[:, None, :]]
    images *= strength.uniform(0.6, 1.4, size=(count, 1, 1)).astype(np.float32)
    images += np.float32(_CLUTTER) * _smooth(clutter, count)
    images += np.float32(_NOISE) * noise.standard_normal((count, _SIDE, _SIDE), dtype=np.float32)
    return images[:, None], labels
