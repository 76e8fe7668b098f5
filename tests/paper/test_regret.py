from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest

import fedwave as fw
from fedwave.paper import Floats
from fedwave.paper.regret import InformedGreedy, Regret, RegretSetting, bias_span, gaps, regret
from fedwave.paper.theory_figures import regret_figure

MANY = RegretSetting(rounds=600, instances=60, seed=3)


@pytest.fixture(scope="module")
def quick() -> Regret:
    return regret(RegretSetting(rounds=400, instances=8))


@pytest.fixture(scope="module")
def optima() -> list[fw.theory.Optimum]:
    return [fw.theory.value_iteration(MANY.problem(i)) for i in range(MANY.instances)]


def run(policy: str | fw.Scheduler) -> fw.Trace:
    return fw.simulate(MANY.network, policy, MANY.rounds, MANY.instances, MANY.seed)


def test_every_instance_has_rates_from_the_prior() -> None:
    setting = RegretSetting(instances=400)
    low, high = np.sqrt([setting.prior.low, setting.prior.high])
    place = np.sort((np.sqrt(setting.theta.ravel()) - low) / (high - low))
    even = (np.arange(800) + 0.5) / 800  # Jeffreys: the root of a rate is uniform
    assert np.abs(place - even).max() < 1.63 / np.sqrt(800)  # 1 % of a Kolmogorov-Smirnov test
    trace = run("random")
    error = np.sqrt(MANY.theta / MANY.rounds)
    assert np.abs((trace.arrivals.mean(axis=0) - MANY.theta) / error).max() < 4.5


def test_an_instance_does_not_depend_on_how_many_run() -> None:
    few = replace(MANY, instances=3)
    np.testing.assert_array_equal(few.theta, MANY.theta[:3])
    alone = fw.simulate(MANY.network, "random", 80, [2], MANY.seed)
    np.testing.assert_array_equal(alone.arrivals[:, 0], run("random").arrivals[:80, 2])


def test_informed_greedy_is_alsa_pi_on_the_instance_s_own_network() -> None:
    alone = MANY.network.replace(rate=MANY.theta[2])
    one = fw.simulate(alone, "alsa-pi", 200, [2], MANY.seed)
    both = run(InformedGreedy(MANY.theta))
    np.testing.assert_array_equal(one.scheduled[:, 0], both.scheduled[:200, 2])
    np.testing.assert_array_equal(one.waiting[:, 0], both.waiting[:200, 2])


def test_channels_are_those_that_are_planned_for() -> None:
    network, problem = MANY.network, MANY.problem(0)
    seen = network.success.probability(network.mean_snr * run("random").gain)
    for u in range(2):
        values, counts = np.unique(seen[:, :, u], return_counts=True)
        np.testing.assert_array_equal(values, problem.levels[u])
        assert counts[0] / counts.sum() == pytest.approx(0.5, abs=0.02)
        # dp and the index schedulers ask for finer levels, and must find the same ones.
        finer = network.planning.success_levels(network.mean_snr, 120)[u]
        np.testing.assert_array_equal(np.unique(finer), values)


def solved_by_hand(setting: RegretSetting) -> tuple[float, Floats, Floats]:
    """J*, v and gap of the score itself, state by state; arrivals beyond the cut count as delivered."""
    problem, most = setting.problem(0), setting.truncation
    chances = [fw.arrivals.Poisson().chances(problem.theta[u], 60) for u in range(2)]
    backlogs = list(product(range(most + 1), repeat=2))
    channels = list(product(*problem.levels))
    reward = np.zeros((len(channels), len(backlogs), 2))
    moves = np.zeros((len(channels), len(backlogs), 2, len(backlogs)))
    for (s, n), (c, p), a in product(enumerate(backlogs), enumerate(channels), range(2)):
        for arrived, part in ((True, p[a]), (False, 1 - p[a])):
            after = np.ones((1, 1)) * part
            for u in range(2):
                grown = np.zeros(most + 1)
                np.add.at(grown, np.minimum(n[u] + np.arange(61), most), chances[u])
                if arrived and u == a:
                    grown = np.eye(most + 1)[0]
                after = (after[:, :, None] * grown).reshape(after.shape[0], -1)
            moves[c, s, a] += after[0]
        left = moves[c, s, a] @ np.array([sum(b) for b in backlogs])
        reward[c, s, a] = problem.theta.sum() - (left - sum(n)) - setting.gamma * left
    v = np.zeros(reward.shape[:2])
    for _ in range(1500):
        value = reward + moves @ v.mean(axis=0)
        new = value.max(axis=2)
        average, v = float((new - v).mean()), new - new[:, 0].mean()
    return average, v, value.max(axis=2, keepdims=True) - value


@pytest.fixture(scope="module")
def tiny() -> RegretSetting:
    return RegretSetting(truncation=5, gamma=0.3, instances=1, prior=fw.priors.Truncated(0.3, 1.5))


def test_optimum_span_and_gaps_are_those_of_the_score(tiny: RegretSetting) -> None:
    average, v, gap = solved_by_hand(tiny)
    optimum = fw.theory.value_iteration(tiny.problem(0))
    expected = tiny.theta[0].sum() - tiny.gamma * optimum.backlog
    assert average == pytest.approx(expected, rel=1e-7)
    assert bias_span(tiny, optimum) == pytest.approx(np.ptp(v) / tiny.scale, rel=1e-6)
    trace = fw.simulate(tiny.network.replace(buffer_limit=5), "random", 300, 1)
    state = trace.waiting[:, 0] @ [6, 1]
    good = (trace.gain[:, 0] > 1).astype(int) @ [2, 1]
    by_hand = gap[good, state, trace.scheduled[:, 0, 1].astype(int)] / tiny.scale
    np.testing.assert_allclose(gaps(tiny, trace, [optimum])[:, 0], by_hand, atol=1e-8)
    assert by_hand.max() > 0.001
    end = v.mean(axis=0)[trace.final.waiting @ [6, 1]] / tiny.scale
    np.testing.assert_allclose(bias_change(tiny, trace, [optimum]), end, atol=1e-8)


def plain_regret(setting: RegretSetting, trace: fw.Trace, best: Sequence[fw.theory.Optimum]) -> Floats:
    """T J* - sum of r from the scores, ``[I]``, with the mean in place of the arrivals, which leaves its mean."""
    left = trace.final.waiting.sum(axis=1)
    least = np.array([one.backlog for one in best])
    out: Floats = left + setting.gamma * (trace.backlog - least).sum(axis=0)
    return out / setting.scale


def bias_change(setting: RegretSetting, trace: fw.Trace, best: Sequence[fw.theory.Optimum]) -> Floats:
    """v(s_{T+1}) - v(s_1), ``[I]``, averaged over the channels of round T + 1; v is 0 where nothing waits."""
    left = np.minimum(trace.final.waiting, setting.truncation)
    bias = np.array([one.bias[tuple(n)] for one, n in zip(best, left, strict=True)])
    out: Floats = trace.final.waiting.sum(axis=1) - setting.gamma * bias
    return out / setting.scale


@dataclass(frozen=True, eq=False)
class Best(fw.Scheduler):
    """The optimum of every instance."""

    optima: Sequence[fw.theory.Optimum] = ()
    name = "best"
    needs = frozenset({"channel", "backlog"})

    def priority(self, state: fw.State, seen: fw.Observation, draws: fw.Draws) -> Floats:
        rows = enumerate(self.optima)
        gains = [o.table.decision_gains(seen.success[i, None], seen.waiting[i, None]) for i, o in rows]
        return np.concatenate(gains)  # with W = 1 the decisions are the devices


def test_only_the_optimum_gives_nothing_away(optima: list[fw.theory.Optimum]) -> None:
    some = fw.simulate(MANY.network, Best(optima[:6]), 300, 6, MANY.seed)
    assert gaps(MANY, some, optima[:6]).max() < 1e-12
    assert (gaps(MANY, run("random"), optima).sum(axis=0) > 0).all()


@pytest.mark.parametrize("name", ["random", "greedy"])
def test_gaps_add_up_to_the_regret(name: str, optima: list[fw.theory.Optimum]) -> None:
    trace = run(InformedGreedy(MANY.theta) if name == "greedy" else name)
    summed = gaps(MANY, trace, optima).sum(axis=0)
    luck = fw.statistics.estimate(
        plain_regret(MANY, trace, optima) - summed - bias_change(MANY, trace, optima), level=0.999
    )
    assert abs(luck.mean) < luck.half_width
    assert luck.half_width < 0.05
    # By the scores alone, too: arrivals that were taken at their mean are its only difference.
    score = (MANY.theta.sum(axis=1) - MANY.gamma * np.array([o.backlog for o in optima])) * MANY.rounds
    more = (MANY.theta * MANY.rounds - trace.arrivals.sum(axis=0)).sum(axis=1)
    by_score = (score - trace.score.sum(axis=0) - more) / MANY.scale
    np.testing.assert_allclose(plain_regret(MANY, trace, optima), by_score, atol=1e-9)


def test_greedy_loses_in_every_round_and_who_plans_ahead_stops_losing(quick: Regret) -> None:
    """BALSA learns the rates and then plays greedy: its regret to the optimum grows by J* - J of greedy a round."""
    excess = (quick.optimum - quick.greedy).mean()
    assert (quick.optimum > quick.greedy).all()
    assert quick.slope("balsa").mean() > 0.6 * excess
    assert quick.slope("lagrangian-bayes").mean() < 0.4 * excess
    assert quick.slope("dp-ts").mean() < 0.03 * excess
    assert quick.to_greedy("dp-ts")[-1].mean() < -0.9 * 400 * excess
    assert abs(quick.to_greedy("balsa")[-1].mean()) < 0.3 * 400 * excess


def test_rewards_lie_between_0_and_1(tiny: RegretSetting) -> None:
    n, theta = np.array(list(product(range(6), repeat=2))), np.full(2, tiny.prior.high)
    least = -tiny.gamma * (tiny.truncation + theta).sum()
    for p, a in product(product(*tiny.problem(0).levels), np.eye(2)):
        sent = a * p
        score = ((1 + tiny.gamma) * sent * (n + theta) - tiny.gamma * (n + theta)).sum(axis=1)
        reward = (score - least) / tiny.scale
        assert reward.min() >= 0
        assert reward.max() <= 1
    assert reward.max() > 0.7  # and nearly fill it


def test_bound_by_hand(quick: Regret) -> None:
    assert quick.states == (2 * 41) ** 2
    assert quick.actions == 2
    small = replace(quick, states=3, actions=2, span=0.5)
    root = 1.5 * np.sqrt(2 * 3 * 2 * 100 * np.log(100)) + 49 * 0.5 * 3 * np.sqrt(200 * np.log(200))
    assert small.bound(100) == pytest.approx(root)
    assert small.lemma(100, 3) == pytest.approx(np.sqrt(12 * 100 * np.log(100)))
    for slope in (1.0, 1e-3):
        end = small.crossing(slope)
        assert small.bound(0.99 * end) > slope * 0.99 * end
        assert small.bound(1.01 * end) < slope * 1.01 * end
    assert small.crossing(0.0) == np.inf
    # It says nothing where it was measured.
    assert (quick.bound(quick.rounds) > 1000 * quick.rounds).all()
    assert quick.crossing() > 1e9
    assert quick.regret["balsa"][-1].max() < 1e-6 * quick.bound(400)


def test_stages(quick: Regret) -> None:
    t = quick.rounds[1:, None]
    assert quick.counted_states == 64
    for count in quick.stages.values():
        np.testing.assert_array_equal(count[0], 1)
        assert set(np.unique(np.diff(count, axis=0))) <= {0, 1}
        assert (count[1:] <= quick.lemma(t, 64)).all()  # Lemma 4; in round 1 it allows none
    last = {rule: count[-1].mean() for rule, count in quick.stages.items()}
    assert last["literal"] > last["per-device"] > last["max1"] > np.sqrt(2 * 400)
    setting = quick.setting
    trace = fw.simulate(
        setting.network,
        fw.scheduler("balsa", prior=setting.prior, stage_rule="max1"),
        400,
        8,
        setting.seed,
        beliefs=True,
    )
    begun = [len(np.unique(column)) for column in trace.beliefs["stage_start"].T]
    np.testing.assert_array_equal(quick.stages["max1"][-1], begun)


def test_table_and_figure(quick: Regret) -> None:
    heading, rows = quick.table()
    assert len(rows) == 400
    assert {len(row) for row in rows} == {len(heading)}
    assert rows[9][heading.index("regret balsa")] == quick.regret["balsa"][9].mean()
    figure = regret_figure(quick)
    assert len(figure.axes) == 4
    assert len(figure.legends[0].get_texts()) == 4
