"""The contract of an optimizer: every number of w by itself, and a memory that is a value."""

from __future__ import annotations

import numpy as np

from fedwave.checks.shared import Family, Trial
from fedwave.errors import FedwaveError

_SHAPE = (3, 4)  # models, parameters


def _tried(trial: Trial) -> None:
    rng = np.random.default_rng(0)
    w, memory = rng.standard_normal(_SHAPE), trial.call(trial.part.start, rng.standard_normal(_SHAPE))
    for number in range(1, 6):
        memory, direction = trial.call(trial.part.step, memory, w * number, number)
        trial.keep("directions", np.asarray(direction), _SHAPE, low=-np.inf)
        for name, value in memory.items():
            trial.keep(f"memory[{name!r}]", np.asarray(value), _SHAPE, low=-np.inf)


def _apart(trial: Trial) -> None:
    """Many models at once move as each of them alone: the rows of w are models."""
    rng = np.random.default_rng(1)
    gradients = rng.standard_normal((4, *_SHAPE))
    together, alone = (trial.part.start(shown) for shown in (gradients[0], gradients[0, 1:2]))
    for number, gradient in enumerate(gradients, 1):
        together, many = trial.part.step(together, gradient, number)
        alone, one = trial.part.step(alone, gradient[1:2], number)
        if not np.allclose(many[1:2], one, rtol=1e-12):
            raise FedwaveError("a model moves differently beside others: treat every number of w by itself.")


FAMILY = Family(try_part=_tried, checks={"models": _apart}, shared_checks=("equality", "parameters", "repetition"))
