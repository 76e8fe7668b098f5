"""What a trace was made with, from its provenance, to run it again or to go on."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedwave.errors import FedwaveError, shown
from fedwave.metrics import Metric
from fedwave.network.network import Network
from fedwave.network.partition import Labels
from fedwave.parts.serialize import pack, unpack
from fedwave.plain_text import brief
from fedwave.schedulers.base import Scheduler
from fedwave.trace import Trace
from fedwave.types import Array


def network_of(trace: Trace) -> Network:
    """The network that a trace was run on."""
    check_trace(trace)
    network: Network = unpacked(trace, "network")
    return network


def check_trace(trace: Any) -> None:
    """Refuse what is no trace."""
    if not isinstance(trace, Trace):
        raise FedwaveError(f"trace is {shown(trace)}, must be a Trace: what simulate returns, or Trace.load reads.")


def unpacked(trace: Trace, what: str) -> Any:
    """A part of its provenance: "network", "scheduler", "labels" or "more_metrics"."""
    try:
        made = unpack(trace.provenance[what], trace.constants)
    except FedwaveError as error:  # it may quote what the file holds
        raise FedwaveError(brief(error)) from None
    kinds = {"network": Network, "scheduler": Scheduler, "labels": Labels}
    kind: Any = kinds.get(what, Metric)
    if not all(isinstance(one, kind) for one in (made if what == "more_metrics" else [made])):
        raise FedwaveError(f"the {what} in the file is {shown(made)}, which is none.")
    return made


def recalled(trace: Trace, what: str, given: Any) -> Any:
    """What the trace was made with: from its provenance, or as it is given, which must be the same."""
    if given is None:
        return unpacked(trace, what)
    arrays: dict[str, Array] = {}
    same = pack(given, arrays, what) == trace.provenance[what] and all(
        name in trace.constants and np.array_equal(array, trace.constants[name], equal_nan=array.dtype.kind == "f")
        for name, array in arrays.items()
    )
    if not same:
        word = {"more_metrics": "metric"}.get(what, what)
        raise FedwaveError(f"the trace was made with another {word}: pass the same, or simulate anew.")
    return given
