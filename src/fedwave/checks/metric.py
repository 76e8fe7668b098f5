"""The contract of a round metric: one number per instance (and device), all memory in the state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.checks.common import Check, named_arrays, network_with, same, saving, unaltered, unchanged
from fedwave.errors import FedwaveError
from fedwave.metrics import Metric
from fedwave.network.network import Network
from fedwave.simulation import simulate
from fedwave.types import Array, PlayedRound, Problem, State

_ROUNDS, _INSTANCES, _STOP = 12, 3, 5


def _networks() -> tuple[Network, ...]:
    """Four devices that lose shards and miss broadcasts; one device that never gets data."""
    return network_with(4).replace(buffer_limit=3, miss_probability=0.3), network_with(1)


class _Rounds(Metric):
    """Keeps the rounds that were played, for metrics to be tried on."""

    name = "rounds_played"

    def __init__(self) -> None:
        self.played: list[PlayedRound] = []

    def measure(self, state: State, played: PlayedRound) -> tuple[State, Array]:
        self.played.append(played)
        return state, played.score


@dataclass
class _Run:
    """What a metric made of a run: its numbers, and its memory before the first and after every round."""

    problem: Problem
    values: list[Array]
    memories: list[State]


def _played(network: Network, instances: list[int]) -> list[PlayedRound]:
    rounds = _Rounds()
    simulate(network, "age", _ROUNDS, instances, metrics=[rounds])
    return rounds.played


def _measure(metric: Metric, network: Network, instances: list[int] | None = None) -> _Run:
    instances = list(range(_INSTANCES)) if instances is None else instances
    problem = network.problem(len(instances))
    run = _Run(problem, [], [metric.start(problem)])
    for played in _played(network, instances):
        memory, value = metric.measure(run.memories[-1], played)
        run.values.append(np.asarray(value))
        run.memories.append(memory)
    return run


def _values(metric: Metric) -> None:
    for network in _networks():
        run = _measure(metric, network)
        wanted = (_INSTANCES, network.size) if metric.per_device else (_INSTANCES,)
        kind = run.values[0].dtype
        for t, value in enumerate(run.values, 1):
            if value.shape != wanted or value.dtype.kind not in "biuf":
                raise FedwaveError(
                    f"it returns type {value.dtype} and shape {value.shape} in round {t}, must be numbers of shape "
                    f"{wanted}: one per instance{' and device' if metric.per_device else ''}."
                )
            if value.dtype != kind:
                raise FedwaveError(
                    f"it returns {kind} in round 1 but {value.dtype} in round {t}: return one type in every round, "
                    "since all rounds are kept in one array."
                )
            if not np.isfinite(value).all():
                raise FedwaveError(
                    f"it returns NaN or infinity in round {t} on a network of {network.size} devices: every round "
                    "needs a number, one without data too, else no mean can be taken."
                )


def _memory(metric: Metric) -> None:
    for network in _networks():
        for memory in _measure(metric, network).memories:
            named_arrays(memory, _INSTANCES, "memory")


def _inputs(metric: Metric) -> None:
    for network in _networks():
        memory = metric.start(network.problem(_INSTANCES))
        for played in _played(network, list(range(_INSTANCES))):
            with unaltered(state=memory, played=played):
                after, _ = metric.measure(memory, played)
            memory = after


def _repetition(metric: Metric) -> None:
    for network in _networks():
        one, other = _measure(metric, network), _measure(metric, network)
        if not all(same(a, b) for a, b in zip(one.values, other.values, strict=True)):
            raise FedwaveError(
                "measured twice, the same run gives different numbers: they may depend on `state` and `played` only."
            )


def _instances(metric: Metric) -> None:
    last = _INSTANCES - 1
    for network in _networks():
        together, alone = _measure(metric, network), _measure(metric, network, [last])
        mine = [{name: a[last:] for name, a in memory.items()} for memory in together.memories]
        values = [value[last:] for value in together.values]
        if not (all(map(same, values, alone.values)) and all(map(same, mine, alone.memories))):
            raise FedwaveError(
                f"instance {last} has different values when it runs alone: keep the rows of every array apart."
            )


def _parameters(metric: Metric) -> None:
    for network in _networks():
        with unchanged(metric, "keep what evolves in the memory, which measure is given and returns"):
            _measure(metric, network)


def _saving(metric: Metric) -> None:
    for network in _networks():
        saving(metric, network, "age", _ROUNDS, _STOP, instances=_INSTANCES, metrics=[metric])


CHECKS: dict[str, Check] = {
    "values": _values,
    "memory": _memory,
    "inputs": _inputs,
    "repetition": _repetition,
    "instances": _instances,
    "parameters": _parameters,
    "saving": _saving,
}
