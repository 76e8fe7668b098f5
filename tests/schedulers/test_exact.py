"""dp and dp-ts: what they decide, what they refuse, and that learning the rates costs little in the long run."""

import numpy as np
import pytest
from refusals import refused

import fedwave as fw
from fedwave.planning import exact_solver
from fedwave.planning.exact_solver import ExactPlan, interpolated_gains
from fedwave.rng import Draws
from fedwave.schedulers.exact import Dp, DpTs
from fedwave.theory.exact_problem import exact_problem
from fedwave.theory.policy_value import value_iteration
from fedwave.types import Observation, Problem


def two(rates=(1.0, 10.0), **changes):
    """p = 0.7 in every round: greedy wastes 18 % here."""
    table = fw.DeviceTable(rate=np.array(rates), distance_m=np.full(len(rates), 300.0))
    always = fw.success.Table((-1.0, 1.0), (0.3, 0.3))
    return fw.Network(table, slots=1, success=always).replace(**changes)


def situation(net, waiting, success, slots=None):
    waiting = np.atleast_2d(waiting)
    quiet = np.zeros(waiting.shape, np.int64)
    return Observation(
        problem=Problem(len(waiting), net.size, "poisson", (0.3, 0.7, 1.4)),
        round=1,
        slots=slots or net.slots,
        delay=quiet + 1,
        delivered=quiet > 0,
        reported=quiet,
        gain=quiet + 1.0,
        success=np.broadcast_to(np.asarray(success, float), waiting.shape),
        waiting=waiting,
        rates=net.rates,
        planning=net.planning,
    )


def decide(scheduler, seen, seed=0):
    draws = Draws(seed, range(len(seen.waiting)))
    return scheduler.decide(scheduler.start(seen.problem), seen, draws.at(1))[0].transmits


def test_dp_decides_as_the_optimum_in_every_state():
    net = two()
    waiting = np.indices((15, 60)).reshape(2, -1).T
    optimum = value_iteration(exact_problem(net))
    gains = optimum.table.decision_gains(np.full(waiting.shape, 0.7), waiting)
    clear = np.abs(gains[:, 0] - gains[:, 1]) > 1e-4
    picked = decide(Dp(), situation(net, waiting, 0.7))
    assert np.array_equal(picked[clear].argmax(axis=1), gains[clear].argmax(axis=1))
    assert clear.mean() > 0.9


def test_decisions_use_the_true_p_between_the_levels():
    seen = situation(two(), [[3, 12]] * 2, [[0.7, 0.01], [0.01, 0.7]])
    assert decide(Dp(levels=1), seen).argmax(axis=1).tolist() == [0, 1]


@pytest.mark.parametrize("waiting, text", [([9, 0, 9], [1, 0, 1]), ([0, 9, 9], [0, 1, 1])])
def test_two_slots_take_the_best_pair(waiting, text):
    net = two((1.0, 1.0, 1.0), slots=2)
    assert decide(Dp(), situation(net, waiting, 0.7))[0].tolist() == [bool(t) for t in text]


def test_with_as_many_slots_as_devices_or_none_there_is_nothing_to_plan(monkeypatch):
    monkeypatch.setattr(ExactPlan, "tables", None)
    net = two(slots=[2, 0, 2])
    for name in ("dp", "dp-ts"):
        trace = fw.simulate(net, name, rounds=3, instances=2)
        assert trace.scheduled.sum(axis=2).tolist() == [[2, 2], [0, 0], [2, 2]]


def test_equal_devices_are_taken_in_turn_by_chance():
    for slots, share in ((1, 1 / 3), (2, 2 / 3)):
        net = two((1.0, 1.0, 1.0), slots=slots)
        picked = decide(Dp(), situation(net, np.full((3000, 3), 4), 0.7))
        assert np.abs(picked.mean(axis=0) - share).max() < 0.03


def test_equal_networks_share_a_plan_and_others_do_not(monkeypatch):
    solved, original = [], exact_solver.solve_networks
    monkeypatch.setattr(exact_solver, "solve_networks", lambda *args: solved.append(args) or original(*args))
    monkeypatch.setattr(exact_solver, "_CACHE", exact_solver._Cache())
    one = two((1.3, 2.1))
    different = [
        (one, "dp"),
        (one, "dp:truncation=9"),
        (two((1.3, 2.2)), "dp"),
        (two((1.3, 2.1, 1.0), slots=2), "dp"),
        (one.replace(success=fw.success.Threshold(1.0)), "dp"),
        (one.replace(arrivals=fw.arrivals.NegativeBinomial(2.0)), "dp"),
        (one.replace(arrivals=fw.arrivals.NegativeBinomial(3.0)), "dp"),
    ]
    for number, (network, name) in enumerate(different, 1):
        fw.simulate(network, name, rounds=3, instances=2)
        fw.simulate(two((1.3, 2.1)), "dp", rounds=3, instances=2)
        assert len(solved) == number
    monkeypatch.setattr(exact_solver, "_MOST_BYTES", 1)  # a plan takes the place of all others
    for number, rates in enumerate([(1.7, 2.1), (1.3, 2.1)], len(different) + 1):
        fw.simulate(two(rates), "dp", rounds=3, instances=2)
        assert len(solved) == number


def test_batches_give_each_network_the_answer_it_gets_alone():
    plan, planning = ExactPlan("dp-ts", 2, steps=12, rare=1e-2, tolerance=1e-4), two().planning
    rates = np.array([[0.3, 0.3], [1.0, 10.0], [40.0, 2.0]])
    together = plan._solve(planning, 1, rates)
    for row, table in zip(rates, together, strict=True):
        (alone,) = plan._solve(planning, 1, row[None])
        assert np.array_equal(alone.gains, table.gains)
    waiting = np.array([[3, 4], [7, 33], [200, 1]])
    expected = [table.at(n[None])[0] for table, n in zip(together, waiting, strict=True)]
    np.testing.assert_allclose(interpolated_gains(together, waiting), expected, rtol=1e-12)


def test_learnt_rates_come_to_cost_little():
    """dp-ts approaches dp; balsa, which plays greedy, stays away from it."""
    net = two()
    late = {
        name: fw.simulate(net, name, rounds=800, instances=60, seed=3).backlog[300:].mean(axis=0)
        for name in ("dp", "dp-ts", "balsa")
    }
    optimum = value_iteration(exact_problem(net)).backlog
    above = {name: (late[name] - late["dp"]).mean() / optimum for name in late}
    assert abs(above["dp-ts"]) < 0.01
    assert above["balsa"] > 0.12
    first = {name: fw.simulate(net, name, rounds=20, instances=300, seed=4).backlog.mean() for name in ("dp", "dp-ts")}
    assert first["dp-ts"] > first["dp"]


@pytest.mark.parametrize("name", ["dp", "dp-ts"])
def test_networks_that_are_too_large_are_refused_at_the_first_decision(name):
    correlated = two(fading=fw.fading.GaussMarkov())
    for network, what in ((fw.paper_network(), 25), (fw.random_network(5000), 5000), (correlated, "channels")):
        with refused(name, what):
            fw.simulate(network, name, rounds=2, instances=1)


@pytest.mark.filterwarnings("ignore::fedwave.network.plausible.ImplausibleWarning")
def test_dp_ts_refuses_rates_beyond_counting():
    with refused("dp-ts", "shards"):
        fw.simulate(two((1.0, 1e8)), "dp-ts", rounds=3, instances=1)


@pytest.mark.parametrize(
    "kind, wrong",
    [
        (Dp, {"levels": 0}),
        (Dp, {"truncation": 1.5}),
        (DpTs, {"steps": 0}),
        (DpTs, {"levels": "few"}),
        (DpTs, {"stage_rule": "max2"}),
    ],
)
def test_bad_parameters_are_refused(kind, wrong):
    ((name, value),) = wrong.items()
    with refused(name, repr(value)):
        kind(**wrong)
