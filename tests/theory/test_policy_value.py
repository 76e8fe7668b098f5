"""The exact optimum of a few devices against known values, brute force, and long simulations."""

from itertools import combinations, product

import numpy as np
import pytest
from refusals import refused

import fedwave as fw
from fedwave.schedulers.balsa import AlsaPi
from fedwave.schedulers.greedy import Fresh, MaxWeight, SqrtRule
from fedwave.theory.exact_problem import ExactProblem, exact_problem
from fedwave.theory.policy_value import mean_backlog, value_iteration


def in_tenths(rates):
    """Greedy with p in whole tenths: so computed, equal priorities are equal."""
    return lambda p, n: np.round(10 * p) * (n + np.array(rates))


@pytest.mark.parametrize(
    "rates, levels, best, greedy",
    [
        ([1, 5], [0.7], 5.708, 6.215),
        ([1, 10], [0.7], 9.269, 10.926),
        ([1, 1], [0.7], 2.198, 2.198),
        ([1, 1], [0.3, 0.9], 2.498, 2.512),
    ],
)
def test_the_known_values_of_two_devices(rates, levels, best, greedy):
    problem = ExactProblem(rates, [levels, levels], slots=1)
    optimum = value_iteration(problem)
    assert round(optimum.backlog, 3) == best
    assert round(mean_backlog(problem, in_tenths(rates)), 3) == greedy
    assert optimum.error < 1e-5
    assert optimum.score(0.01) == pytest.approx(sum(rates) - 0.01 * optimum.backlog)


def test_greedy_is_not_optimal_where_everything_is_certain():
    """Theorem 2 of the paper is false: p = 1, and exactly (1, 9) shards every round."""

    class Steady(fw.arrivals.Arrivals):
        name, distribution = "steady", "poisson"

        def sample(self, block, rates):
            raise AssertionError("not simulated")

        def chances(self, rates, most):
            return (np.arange(most + 1) == np.asarray(rates)[..., None]).astype(float)

    problem = ExactProblem([1, 9], [[1.0], [1.0]], 1, Steady())
    assert value_iteration(problem).backlog == pytest.approx(3.75, abs=1e-6)
    assert round(mean_backlog(problem, AlsaPi()), 2) == 5.21
    slow_first = mean_backlog(problem, lambda p, n: p * (n + np.array([1, 9])) + [0.5, 0])
    assert slow_first == pytest.approx(5.0, abs=1e-6)


def brute_force(problem, most):
    """The same optimum by loops over everything: states, channels, decisions, uploads, arrivals."""
    devices = range(problem.size)
    states = list(product(range(most + 1), repeat=problem.size))
    number = {state: i for i, state in enumerate(states)}
    chances = [problem.chances(u, most) for u in devices]
    chances = [np.append(c[:-1], 1 - c[:-1].sum()) for c in chances]
    channels = list(product(*problem.levels))

    def after(state, delivered):
        row = np.zeros(len(states))
        for arrivals in product(range(most + 1), repeat=problem.size):
            chance = np.prod([chances[u][arrivals[u]] for u in devices])
            new = (0 if u in delivered else min(state[u] + arrivals[u], most) for u in devices)
            row[number[tuple(new)]] += chance
        return row

    outcomes = [d for k in range(problem.slots + 1) for d in combinations(devices, k)]
    rows = {d: np.array([after(state, d) for state in states]) for d in outcomes}
    total = np.array([sum(state) for state in states])
    bias = np.zeros(len(states))
    for _ in range(400):
        expected = {d: rows[d] @ (total + bias) for d in outcomes}
        new = np.zeros(len(states))
        for p in channels:
            values = []
            for chosen in combinations(devices, problem.slots):
                value = np.zeros(len(states))
                for d in (d for d in outcomes if set(d) <= set(chosen)):
                    arrive = [p[u] if u in d else 1 - p[u] for u in chosen]
                    value += np.prod(arrive) * expected[d]
                values.append(value)
            new += np.min(values, axis=0) / len(channels)
        gained = (new - bias)[0]
        bias = new - new[0]
    return gained, bias


@pytest.mark.parametrize(
    "rates, levels, slots, arrivals, most",
    [
        ([0.7, 1.5], [[0.2, 0.9], [0.6, 0.6]], 1, fw.arrivals.Poisson(), 5),
        ([0.7, 1.5], [[0.2, 0.9], [0.6, 1.0]], 2, fw.arrivals.NegativeBinomial(1.0), 5),
        ([0.4, 1.0, 0.8], [[0.2, 0.9], [0.6, 0.8], [0.0, 1.0]], 2, fw.arrivals.Poisson(), 2),
        ([0.4, 1.0, 0.8], [[0.2, 0.9], [0.6, 0.8], [0.0, 1.0]], 1, fw.arrivals.ZeroInflatedPoisson(), 2),
        ([0.4, 0.0, 0.8], [[0.2, 0.9], [0.6, 0.8], [0.0, 1.0]], 3, fw.arrivals.Poisson(), 2),
    ],
)
def test_it_agrees_with_brute_force(rates, levels, slots, arrivals, most):
    problem = ExactProblem(rates, levels, slots, arrivals, truncation=most)
    g, bias = brute_force(problem, most)
    optimum = value_iteration(problem)
    assert optimum.backlog == pytest.approx(g, abs=1e-7)
    np.testing.assert_allclose(optimum.bias.reshape(-1), bias, atol=1e-6)
    assert mean_backlog(problem, optimum) == pytest.approx(g, abs=1e-7)


# A threshold at 0 dB is passed in 3 of 4 rounds where the mean SNR is 1 / ln(4 / 3), and in half at 1 / ln 2.
QUARTER, HALF = (1000 * s ** (-1 / 3.76) for s in (1 / np.log(4 / 3), 1 / np.log(2)))


def network(rates, slots, arrivals, at):
    """Two levels of p; at 1,000 m the mean SNR is 0 dB."""
    table = fw.DeviceTable(rate=rates, distance_m=at)
    return fw.Network(table, slots, success=fw.success.Threshold(1.0), arrivals=arrivals, noise_dbm=23 - 128.1)


def test_long_simulations_agree():
    net = network([1, 1, 3], 2, "poisson", [HALF, QUARTER, QUARTER])
    problem = exact_problem(net, levels=4)
    optimum = value_iteration(problem)
    exact = {"dp": optimum.backlog, "alsa-pi": mean_backlog(problem, AlsaPi())}
    for name, expected in exact.items():
        trace = fw.simulate(net, name, rounds=700, instances=100, seed=1, record="summary")
        means = trace.backlog[50:].mean(axis=0)
        error = means.std(ddof=1) / np.sqrt(means.size)
        assert abs(means.mean() - expected) < 2 * error, name
        assert error < 0.01 * expected  # or the line above says little


@pytest.mark.parametrize("seed", range(12))
def test_nothing_beats_the_optimum(seed):
    rng = np.random.default_rng(seed)
    devices = int(rng.integers(2, 4))
    slots = int(rng.integers(1, devices))
    rates, levels = rng.uniform(0.2, 3, devices), rng.uniform(0.1, 1, (devices, 2))
    # With buffers of 10 shards, where it holds as well and takes no time.
    problem = ExactProblem(rates, levels, slots, truncation=10)
    best = value_iteration(problem)
    assert mean_backlog(problem, best) == pytest.approx(best.backlog, abs=1e-6)
    for policy in (AlsaPi(), MaxWeight(), SqrtRule(), lambda p, n: n):
        assert mean_backlog(problem, policy) >= best.backlog - 1e-6


@pytest.mark.parametrize("seed", range(8))
def test_twice_the_truncation_changes_no_more_than_the_stated_error(seed):
    rng = np.random.default_rng(seed)
    devices = int(rng.integers(1, 4))
    rates, levels = rng.uniform(0.2, 1.5, devices), rng.uniform(0.4, 1, (devices, 2))
    slots = int(rng.integers(1, devices + 1))
    enough = value_iteration(ExactProblem(rates, levels, slots))
    assert enough.error < 2e-6 * max(1, enough.backlog)
    for share in (0.2, 0.45):
        cut = [max(2, int(share * n)) for n in enough.truncation]
        once = value_iteration(ExactProblem(rates, levels, slots, truncation=cut))
        twice = value_iteration(ExactProblem(rates, levels, slots, truncation=[2 * n for n in cut]))
        assert -1e-8 < twice.backlog - once.backlog <= once.error
        assert -1e-8 < enough.backlog - once.backlog <= once.error + enough.error


def small(**changes):
    known = {"rates": [1, 5], "success_levels": [[0.7], [0.7]], "slots": 1}
    return ExactProblem(**known | changes)


STEADY = network([1, 2], 1, "poisson", QUARTER)
REFUSED = {
    ("rates", -1): lambda: small(rates=[1, -1]),
    ("success_levels", 2, "rates", 3): lambda: small(rates=[1, 2, 3]),
    ("rates", "'many'"): lambda: small(rates="many"),
    ("success_levels", "(2,)"): lambda: small(success_levels=[0.7, 0.7]),
    ("success_levels", 1.2): lambda: small(success_levels=[[0.7], [1.2]]),
    ("device 2", "never"): lambda: small(success_levels=[[0.7], [0]]),
    ("slots", 3, 2): lambda: small(slots=3),
    ("truncation", 1, 2): lambda: small(truncation=[5]),
    ("truncation", 2.5): lambda: small(truncation=2.5),
    ("arrivals", "'bursts'"): lambda: small(arrivals="bursts"),
    (8, "4.35e+12", 256, "MiB"): lambda: value_iteration(ExactProblem([1] * 8, [[0.3, 0.9]] * 8, 2)),
    (200,): lambda: value_iteration(ExactProblem([1] * 200, [[0.3]] * 200, 2)),
    ("'age'",): lambda: mean_backlog(small(), fw.scheduler("age")),
    ("'bench'",): lambda: mean_backlog(small(), fw.scheduler("bench")),
    ("'balsa'",): lambda: mean_backlog(small(), fw.scheduler("balsa")),
    ("device 1",): lambda: mean_backlog(small(rates=[1, 1.5]), Fresh()),  # starved: no average
    ("one number", "p"): lambda: mean_backlog(small(), lambda p, n: p[:, 0]),
    ("one number",): lambda: mean_backlog(small(), lambda p, n: p * np.nan),
    (2, 1, "slots"): lambda: mean_backlog(small(), value_iteration(small(slots=2))),
    ("slots", "round"): lambda: exact_problem(STEADY.replace(slots=[1, 2, 1])),
    ("buffer",): lambda: exact_problem(STEADY.replace(buffer_limit=5)),
    ("channels", "every round"): lambda: exact_problem(STEADY.replace(fading=fw.fading.GaussMarkov())),
}


@pytest.mark.parametrize("tokens", REFUSED, ids=str)
def test_what_has_no_exact_optimum_is_refused(tokens):
    with refused(*tokens):
        REFUSED[tokens]()


def test_with_a_full_buffer_a_starved_device_has_an_average():
    assert mean_backlog(small(truncation=20), Fresh()) > 20


def test_a_functions_ties_are_not_lost_to_rounding():
    """0.3 * 3 is not 0.9, but the two devices have the same priority then."""
    rates = np.array([1, 2])
    problem = ExactProblem(rates, [[0.3, 0.9]] * 2)
    exact = mean_backlog(problem, lambda p, n: np.round(10 * p) * (n + rates))
    assert mean_backlog(problem, lambda p, n: p * (n + rates)) == pytest.approx(exact, abs=1e-6)
