"""The contract of an aggregation rule: weights from counts alone, a server step whose memory is a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
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
_STOP = 17


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
    return uploads_of_rounds(rule, delivered, learned, delay, shards)


def _tried(trial: Trial) -> None:
    rule = trial.part
    uploads = _uploads(rule)
    trial.keep("weights", trial.call(rule.weights, uploads), _SHAPE, "float64")
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


def _limited(rule: Aggregation, name: str, what: str) -> bool:
    """What a round delivers never exceeds the limit, and only a round that would is scaled."""
    own = {f.name for f in fields(rule)} if is_dataclass(rule) else set[str]()
    if name not in own:
        return False
    free = replace(rule, **{limit: None for limit in own & {"cap", "stretch"}})  # type: ignore[type-var]
    uploads = _uploads(rule)
    weights = free.coefficients(uploads)
    reached = (weights * getattr(uploads, what)).sum(axis=-1)
    if not reached.any():
        return False
    limit = getattr(rule, name) or float(np.median(reached[reached > 0]))
    limited = replace(free, **{name: limit})  # type: ignore[type-var]
    scale = np.minimum(1.0, limit / np.maximum(reached, limit / 2))[..., None]
    if not np.allclose(limited.coefficients(uploads), scale * weights, rtol=1e-9):
        raise FedwaveError(
            f"with {name} {limit:.4g} the coefficients are not the weights times min(1, {name} / delivered {what}): "
            f"leave the {name} to `coefficients` of the base class."
        )
    return True


def _server_steps(
    rule: Aggregation, size: int, convert: Callable[[Any], Any] = np.asarray, stop: int = 0
) -> FloatArray:
    """The steps of one run, ``[T, size]``; the memory is copied after round ``stop``, as a checkpoint does."""
    uploads, steps = _uploads(rule), []
    updates = np.random.default_rng(1).normal(size=(_SHAPE[0], size))
    memory: Mapping[str, Any] = rule.start(convert(np.zeros(size)))
    for t, update in enumerate(updates):
        if t == stop:
            memory = {name: convert(np.asarray(value).copy()) for name, value in memory.items()}
        memory, taken = rule.server_step(memory, convert(update), uploads.at((t, 0)))
        steps.append(np.asarray(taken).copy())
    return np.stack(steps)


def _stopping(trial: Trial) -> bool:
    if not trial.part.has_server_step():
        return False
    for size in (1, 3):
        if not np.array_equal(_server_steps(trial.part, size), _server_steps(trial.part, size, stop=_STOP)):
            raise FedwaveError(
                f"server steps differ if the memory was restored after round {_STOP}: keep all that evolves in "
                "the memory."
            )
    return True


def _tensors(trial: Trial) -> bool:
    """Training uses torch tensors, the mass NumPy arrays."""
    if not trial.part.has_server_step() or find_spec("torch") is None:
        return False
    from fedwave.learning.server_steps import as_tensor

    if not np.allclose(_server_steps(trial.part, 3), _server_steps(trial.part, 3, as_tensor), rtol=1e-12):
        raise FedwaveError(
            "server_step gives different results for torch tensors and for arrays: use plain arithmetic only."
        )
    return True


FAMILY = Family(
    tried=_tried,
    own={
        "rounds": _rounds,
        "devices": _devices,
        "ageing": _ageing,
        "cap": lambda trial: _limited(trial.part, "cap", "mass"),
        "stretch": lambda trial: _limited(trial.part, "stretch", "trainings"),
        "stopping": _stopping,
        "tensors": _tensors,
    },
    evolves="the memory, which server_step is given and returns",
    numbers="weights and server steps may depend on their arguments only",
    runs=lambda trial: [Run(trial.around(), rounds=_SHAPE[0], stop=_STOP, more={"metrics": [Mass(trial.part)]})],
)
