"""The contract of an aggregation rule: weights from counts alone, a server step whose memory is a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from fedwave.aggregation import Aggregation, Uploads, uploads_of_rounds
from fedwave.checks.common import Check, equality, network_with, saving, unaltered, unchanged
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


def _weights(rule: Aggregation) -> None:
    uploads = _uploads(rule)
    weights = rule.weights(uploads)
    kind = getattr(weights, "dtype", type(weights).__name__)
    if np.shape(weights) != _SHAPE or kind != np.float64:
        raise FedwaveError(
            f"weights are of type {kind} and shape {np.shape(weights)}, must be one float64 per upload: {_SHAPE}."
        )
    if not (np.isfinite(weights).all() and weights.min() >= 0):
        wrong = weights[~(np.isfinite(weights) & (weights >= 0))][0]
        raise FedwaveError(f"a weight is {wrong}, must be a finite number >= 0, before anything was delivered too.")


def _inputs(rule: Aggregation) -> None:
    uploads = _uploads(rule)
    with unaltered(uploads=uploads):
        rule.weights(uploads)
        rule.coefficients(uploads)
        rule.age(uploads.mass, uploads.learned)


def _repetition(rule: Aggregation) -> None:
    uploads = _uploads(rule)
    if not np.array_equal(rule.weights(uploads), rule.weights(uploads)):
        raise FedwaveError("two calls with the same counts give different weights.")


def _rounds(rule: Aggregation) -> None:
    """All rounds and instances at once, or one after the other."""
    uploads = _uploads(rule)
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


def _devices(rule: Aggregation) -> None:
    uploads, order = _uploads(rule), np.roll(np.arange(_SHAPE[2]), 2)
    moved = Uploads(*(getattr(uploads, f.name)[..., order] for f in fields(uploads)))
    if not np.allclose(rule.weights(moved), rule.weights(uploads)[..., order], rtol=1e-12):
        raise FedwaveError(
            "the weights change with the order of the devices: compute them from counts, not from device numbers."
        )


def _ageing(rule: Aggregation) -> None:
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


def _cap(rule: Aggregation) -> bool:
    return _limited(rule, "cap", "mass")


def _stretch(rule: Aggregation) -> bool:
    return _limited(rule, "stretch", "trainings")


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


def _memory(rule: Aggregation) -> bool:
    """Named numbers or arrays, the same names and shapes in every round, and nothing is altered in place."""
    if not rule.has_server_step():
        return False
    uploads, update = _uploads(rule), np.array([0.5, -1.0, 2.0])
    memory = rule.start(np.zeros(3))
    first = _shapes(memory)
    for t in range(_SHAPE[0]):
        with unaltered(memory=memory, update=update, uploads=uploads):
            memory, taken = rule.server_step(memory, update, uploads.at((t, 0)))
        if np.shape(taken) != (3,) or not np.isfinite(taken).all():
            raise FedwaveError(
                f"the server step of round {t + 1} is {taken}, must be finite and of the shape of the update."
            )
        if _shapes(memory) != first:
            raise FedwaveError(
                f"the memory holds {first} before round 1 and {_shapes(memory)} after round {t + 1}: its names and "
                "shapes must stay."
            )
    return True


def _shapes(memory: Any) -> dict[str, tuple[int, ...]]:
    if not isinstance(memory, Mapping):
        raise FedwaveError(f"the memory is a {type(memory).__name__}, must be a mapping of names to arrays.")
    for name, value in memory.items():
        if np.asarray(value).dtype.kind not in "biuf":
            raise FedwaveError(
                f"memory[{name!r}] is a {type(value).__name__}, must be a number or an array of numbers."
            )
    return {name: np.shape(value) for name, value in memory.items()}


def _stopping(rule: Aggregation) -> bool:
    if not rule.has_server_step():
        return False
    for size in (1, 3):
        with unchanged(rule, "keep what evolves in the memory, which server_step is given and returns"):
            through = _server_steps(rule, size)
        if not np.array_equal(through, _server_steps(rule, size, stop=_STOP)):
            raise FedwaveError(
                f"server steps differ if the memory was restored after round {_STOP}: keep all that evolves in "
                "the memory."
            )
    return True


def _tensors(rule: Aggregation) -> bool:
    """Training uses torch tensors, the mass NumPy arrays."""
    if not rule.has_server_step() or find_spec("torch") is None:
        return False
    from fedwave.learning.server_steps import as_tensor

    if not np.allclose(_server_steps(rule, 3), _server_steps(rule, 3, as_tensor), rtol=1e-12):
        raise FedwaveError(
            "server_step gives different results for torch tensors and for arrays: use plain arithmetic only."
        )
    return True


def _parameters(rule: Aggregation) -> None:
    uploads = _uploads(rule)
    with unchanged(rule, "weights may depend on the counts and the parameters only"):
        rule.coefficients(uploads)


def _saving(rule: Aggregation) -> None:
    saving(rule, network_with(), "age", _SHAPE[0], _STOP, metrics=[Mass(rule)])


CHECKS: dict[str, Check] = {
    "equality": equality,
    "weights": _weights,
    "inputs": _inputs,
    "repetition": _repetition,
    "rounds": _rounds,
    "devices": _devices,
    "ageing": _ageing,
    "cap": _cap,
    "stretch": _stretch,
    "memory": _memory,
    "stopping": _stopping,
    "tensors": _tensors,
    "parameters": _parameters,
    "saving": _saving,
}
