"""The contract of a scheduler: decide from the Observation, pick at most W, keep everything that evolves in the state.

Then runs repeat, can be stopped and continued, and do not depend on each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedwave.checks.shared import INSTANCES, SHARED, Family, Run, Trial
from fedwave.errors import FedwaveError
from fedwave.network.arrivals import NegativeBinomial
from fedwave.network.availability import OnOff
from fedwave.network.devices import Device
from fedwave.network.network import Network, NetworkPlanning, paper_network
from fedwave.network.partition import Dirichlet, Labels
from fedwave.network.success import Soft
from fedwave.rng import Draws
from fedwave.simulation import Simulation, make_setup
from fedwave.types import BoolArray, Decision, FloatArray, IntArray, NetworkState, Observation, Problem, checked_state

_ROUNDS = 12
_AWAY = OnOff(mean_on=3, mean_off=2)
_LABELS = Labels(Dirichlet(0.3), classes=4, shard_size=3)  # for a scheduler that sees them


class _StandIn:
    """A learner without models: its signals follow from the counts, so they repeat and have no ties."""

    def train(self, round_: int, shards: IntArray, heard: BoolArray | None, delay: IntArray) -> dict[str, FloatArray]:
        return {"update_norm": shards + np.sqrt(delay) / 10}

    def deliver(self, decision: Decision, after: NetworkState) -> None:
        pass


def _networks(trial: Trial) -> list[Network]:
    """The paper's; two devices, one of which never gets data; one whose W changes and where devices come and go.

    A scheduler for small networks only is not tested on the paper's network, nor with a fourth device.
    """
    if trial.network is not None:
        size = trial.network.size
        changing = np.resize([1, min(3, size), 0, min(2, size), size], _ROUNDS).tolist()
        return [trial.network, trial.around(), trial.network.replace(slots=changing, availability=_AWAY)]
    pair = [Device(rate=0, distance_m=100), Device(rate=2.5, distance_m=450)]
    four = [Device(rate=r, distance_m=d) for r, d in ((1, 150), (4, 420), (0.3, 300), (2, 250))]
    few = four[:3] if trial.part.small_only else four
    slots = np.resize([1, 3, 0, 2, len(few)], _ROUNDS).tolist()
    small = [
        Network(devices=pair, slots=1, success=Soft()),
        Network(devices=few, slots=slots, success=Soft(), arrivals=NegativeBinomial(), availability=_AWAY),
    ]
    return small if trial.part.small_only else [paper_network(), *small]


def _runs(trial: Trial) -> list[Run]:
    learner = _StandIn() if "learner" in trial.part.needs else None
    more = {"labels": _LABELS, "learner": learner}
    return [Run(network, trial.part, _ROUNDS, instances=trial.ids, more=more) for network in _networks(trial)]


def _try(trial: Trial) -> None:
    """The runs, round by round: what the scheduler saw and picked is kept for the check 'devices'."""
    for run in _runs(trial):
        where, ideal = f"on a network of {run.network.size} devices", trial.part.ideal
        setup = make_setup(run.network, trial.part, trial.ids, labels=_LABELS)
        simulation = Simulation(setup, _ROUNDS, learner=run.more["learner"])
        for _ in range(_ROUNDS):
            seen = simulation.observe()
            decision = simulation.decide(seen)
            simulation.finish(seen, decision)
            most = np.count_nonzero(seen.available, axis=1) if ideal else np.full(len(trial.ids), seen.slots)
            for count, limit in zip(np.count_nonzero(decision.transmits, axis=1), most, strict=True):
                if count > limit or (ideal and count < limit):
                    rule = "all" if ideal else "at most"
                    raise FedwaveError(
                        f"it picks {count} devices in round {seen.round} {where}, must pick {rule} {limit}."
                    )
            trial.notes.append((seen, decision.transmits))
        trace = simulation.trace()
        state = checked_state("state", trace.state, len(trial.ids))
        trial.kept.append((f"decisions {where}", trace.scheduled, 1))
        trial.kept += [(f"numbers in state[{name!r}] {where}", array, 0) for name, array in state.items()]


def _devices(trial: Trial) -> bool:
    if not trial.part.symmetric:
        return False
    rounds = iter(trial.notes)
    for network in _networks(trial):
        order = np.roll(np.arange(network.size), 1)
        draws = _ReorderedDraws(Draws(0, range(INSTANCES)), order)
        state = trial.part.start(network.problem(INSTANCES))
        for _ in range(_ROUNDS):
            seen, picked = next(rounds)
            decision, state = trial.part.decide(state, _reordered(seen, order), draws.at(seen.round))
            if draws.raw:  # its random numbers cannot follow the devices: nothing to compare
                return False
            if not np.array_equal(decision.transmits, picked[:, order]):
                raise FedwaveError(
                    f"with the devices in another order it picks others in round {seen.round} on a network of "
                    f"{network.size} devices: rank devices by the Observation, or declare `symmetric = False`."
                )
    return True


def _reordered(seen: Observation, order: IntArray) -> Observation:
    """The same situation with the devices in another order."""
    fields = dict(vars(seen))
    for name, value in vars(seen).items():
        if isinstance(value, np.ndarray):
            # The last axis is that of the devices, except for counts by class.
            fields[name] = np.take(value, order, axis=1 if name == "label_counts" else -1)
        elif isinstance(value, Problem):
            fields[name] = replace(value, columns=tuple((key, column[order]) for key, column in value.columns))
        elif isinstance(value, NetworkPlanning):
            fields[name] = replace(value, mean_snr=value.mean_snr[order])
    return Observation(**fields)


class _ReorderedDraws(Draws):
    """Draws that follow the devices into another order: each device keeps its own random numbers."""

    def __init__(self, draws: Draws, order: IntArray) -> None:
        self._draws, self._order, self._back = draws, order, np.argsort(order)
        self.raw = False  # did the scheduler take a generator, whose numbers belong to no device?

    def at(self, round_: int) -> _ReorderedDraws:
        self._draws.at(round_)
        return self

    def generator(self, row: int) -> np.random.Generator:
        self.raw = True
        return self._draws.generator(row)

    def uniform(self, devices: int, rows: Sequence[int] | IntArray | None = None) -> FloatArray:
        numbers = self._draws.uniform(devices, rows)
        return np.take(numbers, self._order, axis=1) if devices == self._order.size else numbers

    def standard_gamma(self, shape: FloatArray, rows: Sequence[int] | IntArray) -> FloatArray:
        numbers = self._draws.standard_gamma(np.take(shape, self._back, axis=1), rows)
        return np.take(numbers, self._order, axis=1)


FAMILY = Family(
    try_part=_try,
    checks={"devices": _devices},
    state_is_in="the state, which every call receives and returns",
    random_numbers_rule="draw random numbers only from `draws`",
    runs=_runs,
    trial_name="decisions",
    shared_checks=SHARED[1:],  # nothing keeps a scheduler by its value
)
