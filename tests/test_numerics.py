"""What happens in a run is pinned: who was scheduled, whose upload arrived, what came in, waited and was lost.

The hashes are of version 2 of the numerics. A change that is meant to alter results must say so, raise the
version of the numerics and take them again.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import fedwave as fw

PINNED = json.loads((Path(__file__).parent / "data" / "numerics.json").read_text())
NET = fw.paper_network()
TWO = fw.Network([fw.Device(1, 100), fw.Device(3, 400)], slots=1)
VARIANTS = {
    "harq": {"success": "harq:tries=3"},
    "arq": {"success": "arq:tries=2"},
    "soft": {"success": "soft"},
    "threshold": {"success": "threshold"},
    "uncoded": {"success": "uncoded"},
    "gm": {"fading": "gauss-markov:correlation=0.8"},
    "rician": {"fading": "rician:k_factor=6"},
    "shadow": {"fading": "shadowing:sigma_db=6,correlation=0.5"},
    "nb": {"arrivals": "negative-binomial"},
    "zip": {"arrivals": "zero-inflated-poisson"},
    "miss": {"miss_probability": 0.3},
    "buffer": {"buffer_limit": 5.0},
    "slots": {"slots": [1, 3, 0, 5, 2] * 30},
}


def run(key: str) -> fw.Trace:
    group, *rest = key.split("/")
    if group == "paper":
        return fw.simulate(NET, rest[0], rounds=130, instances=4, seed=3)
    if group == "stage":
        return fw.simulate(NET, f"{rest[0]}:stage_rule={rest[1]}", rounds=150, instances=3, seed=5)
    if group == "variant":
        changed = NET.replace(**VARIANTS[rest[0]])
        return fw.simulate(changed, rest[1], rounds=140, instances=3, seed=2)
    if rest[0] in ("literal", "max1"):
        return fw.simulate(TWO, f"balsa:stage_rule={rest[0]}", rounds=400, instances=5, seed=5)
    return fw.simulate(TWO, rest[0], rounds=60, instances=2, seed=1)


@pytest.mark.parametrize("key", sorted(PINNED))
def test_the_same_happens_as_before(key: str) -> None:
    trace, digest = run(key), hashlib.sha256()
    for name in ("scheduled", "delivered", "arrivals", "waiting", "lost", "heard"):
        digest.update(np.ascontiguousarray(trace.devices[name].astype(np.int64)).tobytes())
    assert digest.hexdigest()[:16] == PINNED[key]
