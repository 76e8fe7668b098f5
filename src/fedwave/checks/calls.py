"""Checks of single calls: what went into a scheduler in each round, and what came out.

Each takes the recorded runs and raises a FedwaveError that says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedwave.checks.common import named_arrays, raised
from fedwave.checks.witness import Run
from fedwave.errors import FedwaveError, HiddenInformation, writes_into_input
from fedwave.schedulers.base import Scheduler
from fedwave.types import Decision


def information(scheduler: Scheduler, runs: Sequence[Run]) -> None:
    """It reads only what `needs` names: reading anything else ends the run."""
    for run in runs:
        if isinstance(run.error, HiddenInformation):
            raise run.error


def inputs(scheduler: Scheduler, runs: Sequence[Run]) -> None:
    """It leaves the observation and the state it was given as they were."""
    for run in runs:
        if run.error is not None and writes_into_input(run.error):
            raise FedwaveError(
                f"it writes into an array that it was given in round {len(run.calls)}: change a copy instead."
            )
        for call in run.calls:
            for name in call.changed:
                raise FedwaveError(f"it alters {name} in place in round {call.seen.round}: return a new array instead.")


def priorities(scheduler: Scheduler, runs: Sequence[Run]) -> None:
    """One priority per instance and device, never NaN."""
    for run in runs:
        for call in run.calls:
            if call.priority is None:
                continue
            shape, wanted = np.shape(call.priority), call.seen.delay.shape
            if shape != wanted:
                raise FedwaveError(f"priorities have shape {shape}, must be one per instance and device: {wanted}.")
            if np.isnan(np.asarray(call.priority, dtype=np.float64)).any():
                raise FedwaveError(
                    f"a priority is NaN in round {call.seen.round} on {which_network(run)}: "
                    "every device needs a number, one without data too."
                )


def decision(scheduler: Scheduler, runs: Sequence[Run]) -> None:
    """The decision says who transmits: a bool array, one value per instance and device."""
    for run in runs:
        for call in run.calls:
            if call.decision is None:
                continue
            if not isinstance(call.decision, Decision):
                raise FedwaveError(f"the decision is of type {type(call.decision).__name__}, must be a Decision.")
            got, wanted = call.decision.transmits, call.seen.delay.shape
            if not (isinstance(got, np.ndarray) and got.dtype == np.bool_ and got.shape == wanted):
                kind = getattr(got, "dtype", type(got).__name__)
                raise FedwaveError(
                    f"the decision's `transmits` is of type {kind} and shape {np.shape(got)}, "
                    f"must be a bool array of shape {wanted}."
                )


def slots(scheduler: Scheduler, runs: Sequence[Run]) -> None:
    """Exactly W devices transmit; all of them for an ideal one."""
    for run in runs:
        for call in run.calls:
            if call.decision is None:
                continue
            devices = call.decision.transmits.shape[1]
            wanted = devices if scheduler.ideal else call.seen.slots
            for picked in np.count_nonzero(call.decision.transmits, axis=1):
                if picked != wanted:
                    raise FedwaveError(
                        f"it picks {picked} of {devices} devices in round {call.seen.round}, "
                        f"must pick exactly {wanted}."
                    )


def completion(scheduler: Scheduler, runs: Sequence[Run]) -> None:
    """No other exception."""
    for run in runs:
        if run.error is not None:
            raise FedwaveError(f"round {len(run.calls)} on {which_network(run)} failed: {raised(run.error)}")


def parameters(scheduler: Scheduler, runs: Sequence[Run]) -> None:
    """The object holds hyper-parameters only, so a run leaves it alone."""
    for run in runs:
        for name in run.altered:
            raise FedwaveError(
                f"a run changes its attribute {name!r}: keep what evolves in the state, "
                "which every call receives and returns."
            )


def state(scheduler: Scheduler, runs: Sequence[Run]) -> None:
    """The state can be saved and cut by instance: named arrays of numbers, the instance axis first."""
    for run in runs:
        for state in (run.start, *(call.state for call in run.calls)):
            named_arrays(state, run.problem.instances, "state")


def which_network(run: Run) -> str:
    """Distinguishes the networks of the checks."""
    return f"a network of {run.problem.devices} devices"
