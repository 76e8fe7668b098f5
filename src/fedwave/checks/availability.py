"""The contract of an availability model: it draws from the block's generators, and keeps its memory in the carry.

The carry is the value that a block of rounds hands to the next one.
"""

from __future__ import annotations

import numpy as np

from fedwave.checks import statistics
from fedwave.checks.shared import Family, Run, Trial, block, is_record
from fedwave.errors import FedwaveError
from fedwave.network.world import World


def _try(trial: Trial) -> None:
    model, size = trial.part, (len(trial.ids), trial.devices)
    for rounds in (1, 2, 7, 64):
        rounds = min(rounds, trial.rounds)
        there, _ = trial.call(model.sample, block(trial.ids, trial.devices, rounds, purpose="availability"), None)
        trial.keep("availability", there, (rounds, *size), high=1, whole=True, axis=1)
    carry = None
    for number in range(3):
        blocks = block(trial.ids, trial.devices, 2, number, purpose="availability")
        _, carry = trial.call(model.sample, blocks, carry)
    world = World(trial.around(availability=model), 0, np.array(trial.ids))
    for round_ in world.rounds(1, trial.rounds):
        if round_.available is not None:
            trial.keep(f"availability in round {round_.round}", round_.available, size, high=1, whole=True, axis=0)


def _declared(trial: Trial) -> bool:
    """A model declared shared is the same in every instance; one declared independent has independent rounds."""
    model = trial.part
    if is_record(model) or not (model.shared or model.independent):
        return False
    there, _ = model.sample(block(range(statistics.DRAWS), trial.devices, 8, purpose="availability"), None)
    if model.shared:
        if (there != there[:, :1]).any():
            raise FedwaveError("it is declared shared, but instances differ: leave `shared` out.")
        return True
    for lag in (1, 2, 3):
        if statistics.correlated(there[:, :, 0].astype(np.float64), lag):
            raise FedwaveError(
                f"it is declared independent, but rounds {lag} apart are correlated: declare `independent = False`."
            )
    return True


def _runs(trial: Trial) -> list[Run]:
    network = trial.around(availability=trial.part)
    return [Run(network, "balsa", trial.rounds, trial.rounds // 2 + 1, trial.instances)]


FAMILY = Family(
    try_part=_try,
    checks={"declared": _declared},
    state_is_in="the carry, which sample is given and returns",
    random_numbers_rule="draw random numbers only from the generators of the block",
    runs=_runs,
)
