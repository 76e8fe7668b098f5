"""What holds for all indices with a price: at the edges, far beyond their tables, and for many devices."""

import numpy as np
import pytest
from pairs import EDGES, priority

import fedwave as fw
from fedwave.planning import backlog_tables
from fedwave.planning.channel_statistics import channel_statistics
from fedwave.planning.mass_objective import Reward
from fedwave.planning.mass_tables import mass_tables
from fedwave.schedulers import priced

BACKLOG = ("lagrangian", "whittle", "lagrangian-bayes", "whittle-bayes")
HIDDEN = ("lagrangian-po", "lagrangian-po:average=0")
MASS = ("mass-index", "mass-index-bayes", "mass-index-po")


@pytest.mark.parametrize("text", [*BACKLOG, *HIDDEN, *MASS])
@pytest.mark.parametrize("edge", EDGES)
def test_they_run_at_the_edges(text, edge):
    network = EDGES[edge]
    trace = fw.simulate(network, fw.scheduler(text), rounds=6, instances=2)
    assert (np.count_nonzero(trace.scheduled[0], axis=1) == network.slots_in(1)).all()


@pytest.mark.parametrize("text", [*BACKLOG, *(f"{name}:aggregation=constant:beta=0.9" for name in MASS)])
def test_more_never_ranks_lower_also_far_beyond_the_tables(text):
    """A larger backlog, or a longer delay."""
    net, before = fw.paper_network(), np.full(25, -np.inf)
    what = "waiting" if text in BACKLOG else "delay"
    for value in (1, 2, 5, 12, 40, 300, 5000, 10**6, 10**9):
        now = priority(text, net, theta=net.rates, success=0.8, **{what: value})
        assert np.isfinite(now).all()
        assert (now >= before - 1e-6 * (what == "delay")).all()
        before = now
    assert what == "delay" or (before > 1e8).all()


@pytest.mark.parametrize("text", ["lagrangian", "whittle", "mass-index"])
def test_many_kinds_of_devices_are_read_from_tables(text, monkeypatch):
    for module in (priced, backlog_tables):
        monkeypatch.setattr(module, "MANY_CLASSES", 20)
    net, rng = fw.random_network(60, 8, seed=11), np.random.default_rng(0)
    fields = {"waiting": rng.integers(0, 40, 60), "delay": rng.integers(1, 40, 60), "success": rng.random(60)}
    got = priority(text, net, **fields)
    learnt = priority(f"{text}-bayes", net, theta=net.rates, **fields)
    np.testing.assert_allclose(got, learnt, rtol=1e-12)
    other = priority(f"{text}-bayes", net, theta=net.rates[::-1], **fields)
    assert not np.allclose(other, learnt, rtol=0.3)


def test_the_price_is_that_of_the_slots_there_are_on_average():
    net, text = fw.random_network(2, 2, rate=[4.0, 5.0]), "mass-index:aggregation=constant:beta=0.9"
    one = net.replace(slots=1)
    half = {"slots_so_far": np.array([2]), "rounds_so_far": np.array([2])}
    fields = {"success": 0.7, "delay": 3}
    got = priority(text, net, half, **fields)
    np.testing.assert_array_equal(got, priority(text, one, **fields))
    assert not np.allclose(got, priority(text, net, **fields))


@pytest.mark.parametrize("network", [fw.paper_network(), fw.random_network(300, slots=40)], ids=["25", "300"])
@pytest.mark.parametrize(
    "tables",
    [backlog_tables.backlog_tables, lambda statistics: mass_tables(statistics, Reward(fw.aggregation.Lee()))],
    ids=["backlog", "mass"],
)
def test_the_price_of_an_instance_does_not_depend_on_the_others(tables, network):
    statistics, rng = channel_statistics(network.planning), np.random.default_rng(3)
    made = tables(statistics)
    row = made.row[statistics.channel]
    theta = rng.gamma(0.7, [[0.01], [0.1], [3.0], [60.0], [3.0]], (5, network.size))
    slots = np.array([network.size, 1.0, 0.25, 5.0, 20.0])
    price = made.price(row, theta, slots)
    assert price.tolist() == [made.price(row, theta[i : i + 1], slots[i : i + 1])[0] for i in range(5)]
    assert price[0] == 0  # slots for all
    assert (np.diff(price[[0, 4, 2]]) > 0).all()  # fewer slots, a higher price
