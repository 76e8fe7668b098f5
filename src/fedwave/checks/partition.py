"""The contract of a partition: class shares that follow from (seed, instance, device) alone."""

from __future__ import annotations

import numpy as np

from fedwave.checks.shared import Family, Trial
from fedwave.errors import FedwaveError


def _try(trial: Trial) -> None:
    last = 7 if trial.network is None else trial.network.size - 1
    for classes in (10, 23):
        for seed, device in ((0, 0), (0, 1), (1, 0), (1, last)):
            shares = [trial.call(trial.part.class_shares, seed, i, device, classes) for i in trial.ids]
            if shares[0] is not None:
                trial.keep("class shares", np.stack(shares), (len(shares), classes), axis=0)


def _shares(trial: Trial) -> None:
    for _, shares, _ in trial.kept:
        for total in shares.sum(axis=-1):
            if not abs(total - 1) < 1e-9:
                raise FedwaveError(f"class shares add up to {total:.9g}, must add up to 1: divide them by their sum.")


FAMILY = Family(
    try_part=_try,
    checks={"shares": _shares},
    random_numbers_rule='draw from stream(seed, "skew", instance, device), and from nothing else',
)
