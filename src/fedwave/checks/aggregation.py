"""The contract of an aggregation rule: weights from counts alone, a server step whose memory is a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib.util import find_spec
from typing import Any

import numpy as np

from fedwave.aggregation import Aggregation, Uploads, uploads_of_rounds
from fedwave.checks.shared import Family, Run, Trial
from fedwave.errors import FedwaveError, is_number
from fedwave.metrics import Mass
from fedwave.network.dynamics import step
from fedwave.types import FloatArray, NetworkState

_SHAPE = (40, 2, 5)  # rounds, instances, devices


def _uploads(rule: Aggregation) -> Uploads:
    """Example uploads: device 0 never gets data, device 4 never delivers, and no device delivers in one round."""
    rng = np.random.default_rng(0)
    delivered, shards = rng.random(_SHAPE) < 0.4, rng.poisson([0, 0.5, 1, 3, 2], _SHAPE)
    delivered[..., 4] = delivered[7] = False
    state = NetworkState.initial(*_SHAPE[1:])
    learned, delay = np.zeros(_SHAPE, np.int64), np.zeros(_SHAPE, np.int64)
    for t in range(len(shards)):
        delay[t] = state.delay
        state, _ = step(state, delivered[t], shards[t], shards[t], 0.0)
        learned[t] = state.learned
    return uploads_of_rounds(rule, delivered, learned, delay, shards).at(...)


def _try(trial: Trial) -> None:
    rule = trial.part
    uploads = _uploads(rule)
    trial.keep("weights", trial.call(rule.weights, uploads), _SHAPE)
    trial.keep("coefficients", trial.call(rule.coefficients, uploads), _SHAPE)
    trial.keep("masses", trial.call(rule.age, uploads.mass, uploads.learned), _SHAPE)
    if not rule.has_server_step():
        return
    update = np.array([0.5, -1.0, 2.0])
    memory = rule.start(np.zeros(3))
    first = _shapes(memory)
    for t in range(_SHAPE[0]):
        memory, taken = trial.call(rule.server_step, memory, update, uploads.at((t, 0)))
        trial.keep("server steps", taken, (3,), low=-np.inf)
        if _shapes(memory) != first:
            raise FedwaveError(
                f"the memory holds {first} before round 1 and {_shapes(memory)} after round {t + 1}: its names and "
                "shapes must stay."
            )


def _shapes(memory: Any) -> dict[str, tuple[int, ...]]:
    if not isinstance(memory, Mapping):
        raise FedwaveError(f"the memory is a {type(memory).__name__}, must be a mapping of names to arrays.")
    for name, value in memory.items():
        if np.asarray(value).dtype.kind not in "biuf":
            raise FedwaveError(
                f"memory[{name!r}] is a {type(value).__name__}, must be a number or an array of numbers."
            )
    return {name: np.shape(value) for name, value in memory.items()}


def _rounds(trial: Trial) -> None:
    """All rounds and instances at once, or one after the other."""
    rule, uploads = trial.part, _uploads(trial.part)
    together = rule.weights(uploads)
    for t in range(_SHAPE[0]):
        for i in range(_SHAPE[1]):
            if not np.allclose(together[t, i], rule.weights(uploads.at((t, i))), rtol=1e-12):
                raise FedwaveError(
                    f"the weights of round {t + 1} differ when it is computed alone: sum over the last axis "
                    "only (axis=-1)."
                )
    rates = rule.rate(np.array([1, 2, 50, 100_000]))
    if np.shape(rates) != (4,) or not np.isfinite(rates).all():
        raise FedwaveError(f"the weights of a single device at delays up to 100,000 are {rates}.")


def _devices(trial: Trial) -> None:
    uploads, order = _uploads(trial.part), np.roll(np.arange(_SHAPE[2]), 2)
    moved = Uploads(*(getattr(uploads, f.name)[..., order] for f in fields(uploads)))
    if not np.allclose(trial.part.weights(moved), trial.part.weights(uploads)[..., order], rtol=1e-12):
        raise FedwaveError(
            "the weights change with the order of the devices: compute them from counts, not from device numbers."
        )


def _ageing(trial: Trial) -> None:
    rule = trial.part
    if not (is_number(rule.beta) and 0 <= rule.beta <= 1):
        raise FedwaveError(f"beta is {rule.beta}, must be a number between 0 and 1.")
    mass, shards = np.array([0.0, 2.5, 7.0]), np.array([3, 0, 2])
    kept = 1.0 if rule.waits else rule.beta
    if not np.allclose(rule.age(mass, shards), shards + kept * mass, rtol=1e-12):
        raise FedwaveError(
            "age is not shards + beta * mass, which is what training does: set beta instead of overriding age."
        )


def _server_steps(rule: Aggregation, convert: Callable[[Any], Any] = np.asarray) -> FloatArray:
    """The steps of one run, ``[T, 3]``."""
    uploads, steps = _uploads(rule), []
    memory = rule.start(convert(np.zeros(3)))
    for t, update in enumerate(np.random.default_rng(1).normal(size=(_SHAPE[0], 3))):
        memory, taken = rule.server_step(memory, convert(update), uploads.at((t, 0)))
        steps.append(np.asarray(taken).copy())
    return np.stack(steps)


def _tensors(trial: Trial) -> bool:
    """Training uses torch tensors, the mass NumPy arrays."""
    if not trial.part.has_server_step() or find_spec("torch") is None:
        return False
    from fedwave.learning.server_steps import as_tensor

    if not np.allclose(_server_steps(trial.part), _server_steps(trial.part, as_tensor), rtol=1e-12):
        raise FedwaveError(
            "server_step gives different results for torch tensors and for arrays: use plain arithmetic only."
        )
    return True


FAMILY = Family(
    try_part=_try,
    checks={"rounds": _rounds, "devices": _devices, "ageing": _ageing, "tensors": _tensors},
    state_is_in="the memory, which server_step is given and returns",
    random_numbers_rule="weights and server steps may depend on their arguments only",
    runs=lambda trial: [Run(trial.around(), rounds=_SHAPE[0], stop=17, more={"metrics": [Mass(trial.part)]})],
)
