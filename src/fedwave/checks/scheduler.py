"""The contract of a scheduler as a list of small checks.

The contract: decide from the Observation, pick exactly W, keep everything that evolves in the State. Then runs
repeat, can be stopped and continued, and do not depend on each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from fedwave.checks import calls
from fedwave.checks.calls import which_network
from fedwave.checks.common import Check, CheckReport, continued, declared, report
from fedwave.checks.witness import ReorderedDraws, Run, reordered, watch
from fedwave.errors import FedwaveError
from fedwave.network.arrivals import NegativeBinomial
from fedwave.network.devices import Device
from fedwave.network.network import Network, paper_network
from fedwave.network.partition import Dirichlet, Labels
from fedwave.network.success import Soft
from fedwave.rng import Draws
from fedwave.schedulers.base import Scheduler
from fedwave.simulation import simulate
from fedwave.trace import Trace
from fedwave.types import BoolArray, Decision, FloatArray, IntArray, NetworkState

_ROUNDS, _INSTANCES, _SEED = 12, 3, 0
_LABELS = Labels(Dirichlet(0.3), classes=4, shard_size=3)  # for a scheduler that sees them
_STOP = 5  # where a run is saved; odd, so that what alternates from round to round shows


def check_scheduler(scheduler: str | Scheduler | type[Scheduler]) -> CheckReport:
    """Check that a scheduler keeps its contract."""
    chosen: Scheduler = declared("scheduler", scheduler)
    runs = [watch(chosen, network.problem(_INSTANCES), partial(_play, network)) for network in _networks(chosen)]
    return report(f"scheduler {chosen.name!r}", _CHECKS, chosen, runs, declaration=True)


def _networks(scheduler: Scheduler) -> tuple[Network, ...]:
    """The paper's; two devices, one of which never gets data; one whose W changes and may be 0.

    A scheduler for small networks only is not tested on the paper's network, nor with a fourth device.
    """
    pair = [Device(rate=0, distance_m=100), Device(rate=2.5, distance_m=450)]
    four = [Device(rate=r, distance_m=d) for r, d in ((1, 150), (4, 420), (0.3, 300), (2, 250))]
    few = four[:3] if scheduler.small_only else four
    slots = ([1, 3, 0, 2, len(few)] * _ROUNDS)[:_ROUNDS]
    small = (
        Network(devices=pair, slots=1, success=Soft()),
        Network(devices=few, slots=slots, success=Soft(), arrivals=NegativeBinomial()),
    )
    return small if scheduler.small_only else (paper_network(), *small)


def _play(
    network: Network, scheduler: Scheduler, instances: int | list[int] = _INSTANCES, rounds: int = _ROUNDS
) -> Trace:
    return simulate(network, scheduler, rounds, instances, _SEED, labels=_LABELS, learner=_learner_for(scheduler))


class _StandIn:
    """A learner without models: its signals follow from the counts, so they repeat and have no ties."""

    def train(self, round_: int, shards: IntArray, heard: BoolArray | None, delay: IntArray) -> dict[str, FloatArray]:
        return {"update_norm": shards + np.sqrt(delay) / 10}

    def deliver(self, decision: Decision, after: NetworkState) -> None:
        pass


def _learner_for(scheduler: Scheduler) -> _StandIn | None:
    return _StandIn() if "learner" in scheduler.needs else None


def _repetition(scheduler: Scheduler, runs: Sequence[Run]) -> None:
    for network, run in zip(_networks(scheduler), runs, strict=True):
        if not _play(network, scheduler).same_as(_play(network, scheduler)):
            raise FedwaveError(
                f"two runs with one seed differ on {which_network(run)}: draw random numbers only from `draws`."
            )


def _instances(scheduler: Scheduler, runs: Sequence[Run]) -> None:
    last = _INSTANCES - 1
    for network, run in zip(_networks(scheduler), runs, strict=True):
        together, alone = _play(network, scheduler), _play(network, scheduler, [last])
        one, other = together.state, alone.state
        same = np.array_equal(together.scheduled[:, last], alone.scheduled[:, 0]) and all(
            np.array_equal(one[name][last], other[name][0], equal_nan=True) for name in one
        )
        if not same:
            raise FedwaveError(
                f"instance {last} runs differently alone than beside others on {which_network(run)}: "
                "keep the rows of every array apart."
            )


def _saving(scheduler: Scheduler, runs: Sequence[Run]) -> None:
    for network, run in zip(_networks(scheduler), runs, strict=True):
        begun, learner = _play(network, scheduler, rounds=_STOP), _learner_for(scheduler)
        whole = _play(network, scheduler)  # in between, so that a memory outside of the state shows
        later = continued(begun, _ROUNDS, learner, scheduler=scheduler)
        if not later.same_as(whole):
            raise FedwaveError(
                f"a run that was saved, loaded and continued differs on {which_network(run)} from one that never "
                "stopped: keep all that evolves in the state, and parameters in the fields of a dataclass."
            )


def _devices(scheduler: Scheduler, runs: Sequence[Run]) -> bool:
    if not scheduler.symmetric:
        return False
    for run in runs:
        order = np.roll(np.arange(run.problem.devices), 1)
        draws = ReorderedDraws(Draws(_SEED, range(_INSTANCES)), order)
        state = scheduler.start(run.problem)
        for call in run.calls:
            t = call.seen.round
            decision, state = scheduler.decide(state, reordered(call.seen, order), draws.at(t))
            if draws.raw:  # its random numbers cannot follow the devices: nothing to compare
                return False
            if not np.array_equal(decision.transmits, call.decision.transmits[:, order]):
                raise FedwaveError(
                    f"with the devices in another order it picks others in round {t} on {which_network(run)}: "
                    "judge devices by what is seen of them, or declare `symmetric = False`."
                )
    return True


_CHECKS: dict[str, Check] = {
    "information": calls.information,
    "inputs": calls.inputs,
    "priorities": calls.priorities,
    "decision": calls.decision,
    "slots": calls.slots,
    "completion": calls.completion,
    "parameters": calls.parameters,
    "state": calls.state,
    "repetition": _repetition,
    "instances": _instances,
    "saving": _saving,
    "devices": _devices,
}
