"""Small traces of several kinds, and what their files hold."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import numpy as np

import fedwave as fw
from fedwave.files.archive import CHECKSUM, HEADER


def base_traces() -> list[fw.Trace]:
    """Small runs of several kinds: full and summary, with beliefs, names, a list of slots and a metric more."""
    named = [fw.Device(rate=r, distance_m=90 + 60 * r, name=f"d{r}", buffer_limit=6) for r in range(1, 6)]
    net = fw.Network(named, slots=2)
    fading = net.replace(fading="gauss-markov:correlation=0.5", miss_probability=0.3)
    return [
        fw.simulate(net, "balsa", 4, [3, 1], seed=2, beliefs=True),
        fw.simulate(fading, "balsa-po:stage_rule=per-device", 3, 2, beliefs=True),
        fw.simulate(net.replace(slots=[2, 0, 1, 2, 2, 2, 2]), "round-robin", 4, 2, record="summary"),
        fw.simulate(net, "proportional-fair", 4, 2, metrics=["mass:aggregation=fedbuff:size=2"]),
        fw.simulate(net, "bench", 3, 2),
        fw.simulate(net, "mass-labels", 4, 2, labels=fw.partition.Labels("by-class", 3, 4)),
    ]


def contents(trace: fw.Trace) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays and the text of a saved trace."""
    file = BytesIO()
    trace.write(file)
    file.seek(0)
    with np.load(file) as saved:
        arrays = {name: saved[name] for name in saved.files if name != CHECKSUM}
    return arrays, json.loads(str(arrays.pop(HEADER)))
