"""The contract of a scheduler: decide from the Observation, pick exactly W, keep everything that evolves in the state.

Then runs repeat, can be stopped and continued, and do not depend on each other.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedwave.checks.shared import INSTANCES, SHARED, Family, Run, Trial
from fedwave.checks.witness import ReorderedDraws, Witness, reordered
from fedwave.errors import FedwaveError
from fedwave.network.arrivals import NegativeBinomial
from fedwave.network.devices import Device
from fedwave.network.network import Network, paper_network
from fedwave.network.partition import Dirichlet, Labels
from fedwave.network.success import Soft
from fedwave.rng import Draws
from fedwave.types import BoolArray, Decision, FloatArray, IntArray, NetworkState

_ROUNDS = 12
_LABELS = Labels(Dirichlet(0.3), classes=4, shard_size=3)  # for a scheduler that sees them


class _StandIn:
    """A learner without models: its signals follow from the counts, so they repeat and have no ties."""

    def train(self, round_: int, shards: IntArray, heard: BoolArray | None, delay: IntArray) -> dict[str, FloatArray]:
        return {"update_norm": shards + np.sqrt(delay) / 10}

    def deliver(self, decision: Decision, after: NetworkState) -> None:
        pass


def _networks(trial: Trial) -> list[Network]:
    """The paper's; two devices, one of which never gets data; one whose W changes and may be 0.

    A scheduler for small networks only is not tested on the paper's network, nor with a fourth device.
    """
    if trial.network is not None:
        size = trial.network.size
        changing = np.resize([1, min(3, size), 0, min(2, size), size], _ROUNDS).tolist()
        return [trial.network, trial.around(), trial.network.replace(slots=changing)]
    pair = [Device(rate=0, distance_m=100), Device(rate=2.5, distance_m=450)]
    four = [Device(rate=r, distance_m=d) for r, d in ((1, 150), (4, 420), (0.3, 300), (2, 250))]
    few = four[:3] if trial.part.small_only else four
    slots = np.resize([1, 3, 0, 2, len(few)], _ROUNDS).tolist()
    small = [
        Network(devices=pair, slots=1, success=Soft()),
        Network(devices=few, slots=slots, success=Soft(), arrivals=NegativeBinomial()),
    ]
    return small if trial.part.small_only else [paper_network(), *small]


def _runs(trial: Trial) -> list[Run]:
    learner = _StandIn() if "learner" in trial.part.needs else None
    more = {"labels": _LABELS, "learner": learner}
    return [Run(network, trial.part, _ROUNDS, instances=trial.ids, more=more) for network in _networks(trial)]


def _tried(trial: Trial) -> None:
    for run in _runs(trial):
        trace = replace(run, scheduler=Witness(trial.part, trial)).play()
        where = f"on a network of {run.network.size} devices"
        trial.kept.append((f"decisions {where}", trace.scheduled, 1))
        trial.kept += [(f"numbers in state[{name!r}] {where}", array, 0) for name, array in trace.state.items()]


def _devices(trial: Trial) -> bool:
    if not trial.part.symmetric:
        return False
    rounds = iter(trial.notes)
    for network in _networks(trial):
        order = np.roll(np.arange(network.size), 1)
        draws = ReorderedDraws(Draws(0, range(INSTANCES)), order)
        state = trial.part.start(network.problem(INSTANCES))
        for _ in range(_ROUNDS):
            seen, picked = next(rounds)
            decision, state = trial.part.decide(state, reordered(seen, order), draws.at(seen.round))
            if draws.raw:  # its random numbers cannot follow the devices: nothing to compare
                return False
            if not np.array_equal(decision.transmits, picked[:, order]):
                raise FedwaveError(
                    f"with the devices in another order it picks others in round {seen.round} on a network of "
                    f"{network.size} devices: rank devices by the Observation, or declare `symmetric = False`."
                )
    return True


FAMILY = Family(
    tried=_tried,
    own={"devices": _devices},
    evolves="the state, which every call receives and returns",
    numbers="draw random numbers only from `draws`",
    runs=_runs,
    during=("information", "priorities", "decision", "slots", "state", "completion"),
    shared=SHARED[1:],  # nothing keeps a scheduler by its value
)
