"""The number of slots that keeps the backlog below a limit."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refused
from scipy import stats

import fedwave as fw

SHORT = {"rounds": 60, "instances": 4, "burn_in": 20, "seed": 3}


@pytest.mark.parametrize("quantile", [0.9, None])
def test_it_is_the_smallest_by_hand(quantile: float | None) -> None:
    network = fw.random_network(9, seed=2)
    upper = []
    for slots in range(1, 10):
        late = fw.simulate(network.replace(slots=slots), "max-weight", 60, 4, 3).backlog[20:]
        values = late.mean(axis=0) if quantile is None else np.quantile(late, quantile, axis=0)
        upper.append(values.mean() + stats.t.ppf(0.975, 3) * values.std(ddof=1) / 2)
    for limit in (upper[0] + 1, upper[1] + 0.1, upper[4] + 0.1, upper[8] + 0.1):
        found = fw.slots_needed(network, "max-weight", limit, quantile, **SHORT)
        assert int(found) == next(w for w, one in enumerate(upper, 1) if one < limit)
        for slots, one in found.tried.items():
            assert one.mean + one.half_width == pytest.approx(upper[slots - 1])
            assert found.is_enough(slots) == (slots >= found.slots)
    table = found.to_pandas()
    assert table.slots.tolist() == sorted(found.tried)
    assert table.set_index("slots").enough[found.slots]
    assert f"W = {found.slots}" in repr(found)


def test_one_instance_counts_by_its_value() -> None:
    found = fw.slots_needed(fw.paper_network(), "age", 500, rounds=40, instances=1, burn_in=10)
    assert np.isnan(found.tried[found.slots].half_width)
    assert found.tried[found.slots].mean < 500


def test_what_cannot_be_is_refused() -> None:
    network = fw.paper_network()
    with refused("backlog_below", 1, "W = 25"):
        fw.slots_needed(network, "age", 1, **SHORT)
    for name, value in (("backlog_below", 0), ("quantile", 1), ("quantile", 0), ("burn_in", 60), ("rounds", 0)):
        with refused(name, value):
            fw.slots_needed(network, "age", **({"backlog_below": 100} | SHORT | {name: value}))
