"""The contract of a round metric: one number per instance (and device), all memory in the state."""

from __future__ import annotations

import numpy as np

from fedwave.checks.shared import SHARED, Family, Run, Trial
from fedwave.errors import FedwaveError
from fedwave.network.network import Network
from fedwave.simulation import Simulation, make_setup
from fedwave.types import checked_state

_ROUNDS = 12


def _networks(trial: Trial) -> list[Network]:
    """Devices that lose shards and miss broadcasts; one device that never gets data."""
    lossy = trial.around(4).replace(buffer_limit=3, miss_probability=0.3)
    return [lossy] if trial.network else [lossy, trial.around(1)]


def _try(trial: Trial) -> None:
    metric, instances = trial.part, len(trial.ids)
    for network in _networks(trial):
        run = Simulation(make_setup(network, "age", trial.ids), _ROUNDS)
        shape = (instances, network.size) if metric.per_device else (instances,)
        memory, kinds = metric.start(network.problem(instances)), []
        checked_state("memory", memory, instances)
        for t in range(1, _ROUNDS + 1):
            seen = run.observe()
            played = run.finish(seen, run.decide(seen))
            memory, value = trial.call(metric.measure, memory, played)
            value = np.asarray(value)
            each = "instance and device" if metric.per_device else "instance"
            trial.keep(f"values of round {t} (one per {each})", value, shape, low=-np.inf, axis=0)
            kinds.append(value.dtype)
            if value.dtype != kinds[0]:
                raise FedwaveError(
                    f"it returns {kinds[0]} in round 1 but {value.dtype} in round {t}: return one type in every round, "
                    "since all rounds are kept in one array."
                )
            checked_state("memory", memory, instances)
            trial.kept += [(f"values of memory[{name!r}]", array, 0) for name, array in memory.items()]


def _runs(trial: Trial) -> list[Run]:
    return [Run(network, more={"metrics": [trial.part]}) for network in _networks(trial)]


FAMILY = Family(
    try_part=_try,
    state_is_in="the memory, which measure is given and returns",
    random_numbers_rule="they may depend on `state` and `played` only",
    runs=_runs,
    shared_checks=SHARED[1:],  # nothing keeps a metric by its value
)
