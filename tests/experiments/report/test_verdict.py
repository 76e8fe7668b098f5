"""The verdict of a comparison, the bound, percents and the quantile, each recomputed with numpy alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from refusals import refused
from scipy import stats

import fedwave as fw
from fedwave.experiments.analysis.statistics import warm_up_rounds
from fedwave.experiments.report.comparison import NEVER, Comparison

NAMES = ("alsa-pi", "max-weight", "lagrangian-bayes")
ROUNDS, INSTANCES, BURN_IN = 80, 6, 20


@pytest.fixture(scope="module")
def found() -> Comparison:
    return fw.compare(fw.paper_network(), NAMES, ROUNDS, INSTANCES, seed=4, burn_in=BURN_IN)


@pytest.fixture(scope="module")
def backlogs() -> dict[str, np.ndarray]:
    """``[round, instance]`` after the burn-in."""
    return {name: fw.simulate(fw.paper_network(), name, ROUNDS, INSTANCES, 4).backlog[BURN_IN:] for name in NAMES}


def numbers(sentence: str) -> tuple[float, float]:
    mean, half = sentence.partition(": ")[2].split(" ± ")
    return float(mean), float(half.split()[0])


def test_the_verdict_by_hand(found: Comparison, backlogs: dict[str, np.ndarray]) -> None:
    means = {name: values.mean(axis=0) for name, values in backlogs.items()}
    best, second, last = sorted(NAMES, key=lambda name: means[name].mean())
    assert found.ranking == (best, second, last)
    for rival, level in ((None, 1 - 0.05 / 3), (last, 1 - 0.05 / 2)):  # of three pairs, of two
        other = rival or second
        apart = means[best] - means[other]
        half = stats.t.ppf(0.5 + level / 2, INSTANCES - 1) * apart.std(ddof=1) / math.sqrt(INSTANCES)
        told = fw.compare(fw.paper_network(), NAMES, ROUNDS, INSTANCES, 4, burn_in=BURN_IN, against=rival).verdict
        if abs(apart.mean()) > half:
            assert told.startswith(f"{best} has the smallest backlog: ")
            assert numbers(told.replace(" (", " ", 1)) == pytest.approx((-apart.mean(), half), abs=0.06)
            assert f"than {other}" in told
        else:
            assert told.startswith(f"No difference in backlog can be shown between {best} and {other}")
            assert f"{apart.mean():+.1f}" in told


def test_the_quantile_and_the_percent_by_hand(found: Comparison, backlogs: dict[str, np.ndarray]) -> None:
    for name, values in backlogs.items():
        # 60 rounds, numbered from 0 in order: the quantile stands at 0.99 * 59 = 58.41.
        by_instance = [low + 0.41 * (high - low) for low, high in np.sort(values, axis=0)[[58, 59]].T]
        assert found.of_instances(name, "backlog_p99") == pytest.approx(by_instance)
        own, base = values.mean(axis=0), backlogs["alsa-pi"].mean(axis=0)
        share = found.percent(name, "backlog")
        assert share.mean == pytest.approx(100 * (own.mean() - base.mean()) / base.mean())
        left = own - own.mean() / base.mean() * base
        half = stats.t.ppf(0.975, INSTANCES - 1) * left.std(ddof=1) / math.sqrt(INSTANCES) / base.mean()
        assert share.half_width == pytest.approx(100 * half)
    assert np.isnan(found.percent("max-weight", "jain").mean)  # a share has no percent


def test_no_difference_where_there_is_none(found: Comparison) -> None:
    same = fw.compare(fw.paper_network(), ["balsa", "balsa:stage_rule=max1", "age"], 40, 3)
    assert same.verdict.startswith("No difference in backlog can be shown between balsa")
    one = fw.compare(fw.paper_network(), NAMES, 40, 1)
    assert "no interval" in one.verdict
    assert fw.compare(fw.paper_network(), ["age"], 40, 2).verdict == ""
    score = fw.compare(fw.paper_network(), ["age", "max-weight"], 40, 3, metric="score")
    assert score.ranking == ("max-weight", "age")
    assert score.verdict.startswith("max-weight has the largest score")


def test_the_bound_is_a_row_where_it_holds(found: Comparison) -> None:
    network = fw.paper_network()
    assert dict(found.bounds) == {"backlog": float(fw.backlog_bound(network)), "score": fw.score_bound(network)}
    heading, rows = found.table()
    cells = dict(zip(heading, rows[-1], strict=True))
    assert (cells["scheduler"], cells["backlog"], cells["jain"]) == ("bound", "100.13", "")
    assert len(found.table(paired=True)[1]) == len(NAMES) - 1
    for other in (
        network.replace(buffer_limit=20),
        network.replace(fading="gauss-markov"),
        network.replace(availability="on-off:mean_on=20,mean_off=5"),
        network.replace(slots=[5] * 20),
    ):
        free = fw.compare(other, ["age", "fresh"], 20, 2)
        assert free.bounds == {}
        assert [row[0] for row in free.table()[1]] == list(free.ranking)


def test_rounds_that_start_empty_are_told(found: Comparison) -> None:
    assert found.remark == ""  # they are left out
    early = fw.compare(fw.paper_network(), NAMES, ROUNDS, INSTANCES, seed=4)
    assert early.warm_up is not None
    assert 0 < early.warm_up < ROUNDS / 2
    assert f"burn_in={early.warm_up}" in early.remark
    full = fw.compare(fw.paper_network(slots=1), ["age", "w-max"], 8, 3)  # the backlog only grows
    assert full.warm_up == NEVER


def test_the_warm_up_of_a_series() -> None:
    rng = np.random.default_rng(0)
    settled = 10 + rng.normal(size=200)
    assert warm_up_rounds(np.concatenate([np.linspace(0, 10, 30), settled])) in range(20, 35)
    assert warm_up_rounds(np.full(50, 3.0)) == 0
    assert warm_up_rounds(np.arange(50.0)) is None
    for count in (5, 12, 31):  # the sums are those of the definition
        values = rng.normal(size=count)
        errors = [values[d:].std() / math.sqrt(count - d) for d in range(count // 2 + 1)]
        best = int(np.argmin(errors))
        assert warm_up_rounds(values) == (best if best < count // 2 else None)


def test_who_uses_more_slots_takes_no_part(found: Comparison) -> None:
    bench = fw.compare(fw.paper_network(), ["bench", "max-weight", "age"], 40, 4)
    assert bench.ranking[0] == "bench"
    assert bench.unlimited == ("bench",)
    assert bench.verdict.startswith("max-weight has the smallest backlog")
    assert "bench" in bench.remark
    everybody = fw.compare(fw.paper_network(slots=25), ["bench", "age"], 20, 2)
    assert everybody.unlimited == ()


def test_instances_are_added_until_intervals_are_narrow() -> None:
    network, names = fw.paper_network(), ["alsa-pi", "max-weight"]
    added = fw.compare(network, names, 40, 3, seed=2, half_width=1.5)
    assert added.difference("max-weight", "backlog").half_width <= 1.5
    assert added.instances > 3
    whole = fw.compare(network, names, 40, added.instances, seed=2)
    for name in names:
        for metric in whole.metrics:
            assert np.array_equal(added.of_instances(name, metric), whole.of_instances(name, metric)), metric
    few = fw.compare(network, names, 40, 3, seed=2, half_width=0.01, most_instances=7)
    assert few.instances == 7
    assert "7 instances" in few.remark
    alone = fw.compare(network, ["age"], 40, 2, half_width=5)
    assert alone.estimate("age", "backlog").half_width <= 5
    for wrong in (0, -1, float("nan"), "wide"):
        with refused("half_width", wrong):
            fw.compare(network, names, 40, 3, half_width=wrong)  # type: ignore[arg-type]


def test_a_rule_that_nobody_named_is_told() -> None:
    network = fw.paper_network()
    found = fw.compare(network, ["mass-bayes", "age"], 5, 2)
    assert "mass-bayes" in found.remark
    assert "lee" in found.remark
    assert "lee" not in fw.compare(network, ["mass-bayes:aggregation=sync", "age"], 5, 2).remark


def test_a_function_is_called_by_its_name() -> None:
    def oldest(seen: fw.Observation) -> np.ndarray:
        return seen.delay

    found = fw.compare(fw.paper_network(), ["age", oldest], rounds=4, instances=2, against="oldest")
    assert set(found.schedulers) == {"age", "oldest"}
