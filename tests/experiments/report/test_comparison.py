"""A comparison says what the traces say, with paired differences of every metric."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr
from refusals import mentions, refused
from scipy import stats

import fedwave as fw
from fedwave.experiments.analysis.statistics import per_instance
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.report.comparison import COLUMNS, Comparison
from fedwave.experiments.run.runner import run_experiment
from fedwave.files.writing import json_text
from fedwave.metrics import jain

NAMES = ("alsa-pi", "max-weight", "bench")


@pytest.fixture(scope="module")
def data() -> xr.Dataset:
    experiment = Experiment(schedulers=NAMES, rounds=60, instances=8, seed=3, block=5)
    return run_experiment(experiment, workers=1).only.data


@pytest.fixture(scope="module")
def traces() -> dict[str, fw.Trace]:
    """The same, with everything written down."""
    return {name: fw.simulate(fw.paper_network(), name, 60, 8, 3) for name in NAMES}


def test_a_burn_in_is_left_out_of_means_alone(data: xr.Dataset, traces: dict[str, fw.Trace]) -> None:
    trace, whole = traces["alsa-pi"], Comparison.of(data, "bench")
    late = Comparison.of(data, "bench", burn_in=50)
    assert np.array_equal(whole.of_instances("alsa-pi", "score"), trace.score.mean(axis=0))  # to the last digit
    assert np.array_equal(late.of_instances("alsa-pi", "backlog"), trace.backlog[50:].mean(axis=0))
    assert np.allclose(late.of_instances("alsa-pi", "mean_age"), trace.delay[50:].mean(axis=(0, 2)))
    for metric in ("worst_age", "delivered_share", "lost_share", "jain"):
        assert np.array_equal(late.values[metric], whole.values[metric])


@pytest.mark.parametrize("how, wanted", [("mean", [3.5, 1.5]), ("last", [4, 1]), ("max", [4, 2]), ("sum", [7, 2])])
def test_rounds_become_one_number_as_the_metric_says(how: str, wanted: list[float]) -> None:
    values = np.array([[[0, 3, 4], [-1, 2, 1]]])  # [scheduler, instance, round]
    dims = ("scheduler", "instance", "round")
    own = xr.Dataset({"own": (dims, values, {"over_rounds": how})})
    found = per_instance(own, "own", burn_in=1)
    assert found.tolist() == [wanted]
    assert found.dtype == np.float64
    # The order in memory changes nothing, not even the last digit.
    rng = np.random.default_rng(0)
    noise = xr.Dataset({"own": (dims, rng.random((3, 5, 70)), {"over_rounds": how})})
    other = noise.transpose("round", "instance", "scheduler").copy(deep=True)
    assert np.array_equal(per_instance(noise, "own"), per_instance(other, "own"))


def test_the_tidy_table_equals_an_independent_computation(data: xr.Dataset, traces: dict[str, fw.Trace]) -> None:
    found = Comparison.of(data, "alsa-pi").to_pandas()
    assert tuple(found.columns) == COLUMNS
    assert len(found) == len(NAMES) * len(set(found.metric))
    table = found.set_index(["scheduler", "metric"])
    reduced = {
        "score": lambda trace: trace.score.mean(axis=0),
        "backlog": lambda trace: trace.backlog.mean(axis=0),
        "mean_age": lambda trace: trace.series["mean_age"].mean(axis=0),
        "worst_age": lambda trace: trace.series["worst_age"].max(axis=0),
        "jain": lambda trace: jain(trace.totals["device_uploads"]),
        "delivered_share": lambda t: t.final.learned.sum(axis=1) / t.series["arrived"].sum(axis=0),
    }
    reach = stats.t.ppf(0.975, 7)
    for name in NAMES:
        for metric, reduce in reduced.items():
            own, base = reduce(traces[name]), reduce(traces["alsa-pi"])
            row = table.loc[(name, metric)]
            assert row["mean"] == pytest.approx(own.mean())
            assert row["standard_error"] == pytest.approx(own.std(ddof=1) / 8**0.5)
            assert row["half_width"] == pytest.approx(reach * own.std(ddof=1) / 8**0.5)
            assert row["difference"] == pytest.approx((own - base).mean(), abs=1e-12)
            half = reach * (own - base).std(ddof=1) / 8**0.5
            assert row["difference_half_width"] == pytest.approx(half, abs=1e-12)
            assert row["instances"] == 8


def test_json_has_differences_of_everything_and_the_ratio(data: xr.Dataset) -> None:
    found = Comparison.of(data, "alsa-pi")
    told = json.loads(json_text(found.to_json()))
    assert list(told) == list(NAMES)
    for metric in found.metrics:
        assert told["bench"][metric]["mean"] == found.estimate("bench", metric).mean
        apart = told["bench"][f"{metric}_difference"]
        assert apart["half_width"] == found.difference("bench", metric).half_width
    ratio = told["max-weight"]["backlog_ratio"]
    assert ratio["low"] < ratio["value"] < ratio["high"]
    assert "backlog_ratio" not in Comparison.of(data, "bench").to_json()["alsa-pi"]


def test_it_shows_itself_in_a_few_lines(data: xr.Dataset) -> None:
    found = Comparison.of(data, "alsa-pi")
    lines = repr(found).splitlines()
    assert len(lines) == 1 + 2 + len(NAMES) + 3 + len(NAMES) - 1
    assert mentions(lines[0], "3 schedulers", "U = 25", "W = 5", "60 rounds", "8 instances", "seed 3")
    heads = [[cell.strip() for cell in lines[k].strip("|").split("|")] for k in (1, 7)]
    assert [head[:2] for head in heads] == [["scheduler", "score"], ["vs alsa-pi", "score"]]
    first = Comparison.of(data, "alsa-pi", first="jain")
    assert first.metrics[0] == first.brief[0] == "jain"
    assert "<th>vs alsa-pi</th>" in found._repr_html_()
    figure = found.plot()
    assert [axis.get_xlabel() for axis in figure.axes] == [found.long_names[k] for k in found.brief]
    (axis,) = found.plot("backlog").axes
    assert [text.get_text() for text in axis.get_yticklabels()] == ["ALSA-PI", "max-weight", "Bench"]
    assert axis.get_xlabel() == "Backlog (shards)"
    shown = [container.lines[0].get_xdata()[0] for container in axis.containers]
    assert shown == [found.estimate(name, "backlog").mean for name in NAMES]


def test_bad_requests_are_refused_in_a_sentence(data: xr.Dataset) -> None:
    with refused("schedulers", "empty"):
        Experiment(schedulers=())
    for wrong in (60, -1):
        with refused("burn_in", wrong, 60):
            Comparison.of(data, "bench", burn_in=wrong)
    with refused("age"):
        Comparison.of(data, "age")
    with refused("backlogs", "backlog"):
        Comparison.of(data, "bench").plot("backlogs")
    with refused("jane"):
        Comparison.of(data, "bench", first="jane")
    found = Comparison.of(data, "bench")
    with refused("scheduler", "nope"):
        found.estimate("nope", "backlog")
    with refused("backlogs", "backlog"):
        found.difference("alsa-pi", "backlogs")


def test_labels_are_texts_and_tell_the_parameters() -> None:
    network = fw.paper_network()
    assert fw.compare(network, {1: "age", None: "alsa-pi"}, 3, 2).schedulers == ("1", "None")  # type: ignore[dict-item]
    assert fw.compare(network, {1: "age", 2: "alsa-pi"}, 3, 2, against=2).base == "2"  # type: ignore[dict-item, arg-type]
    with refused("two", "'1'"):
        fw.compare(network, {1: "age", "1": "alsa-pi"}, 3, 2)  # type: ignore[dict-item]
    with refused("schedulers", "None"):
        fw.compare(network, None, 3, 2)  # type: ignore[arg-type]
    texts = ("age", "alpha-fresh", "alpha-fresh:alpha=0.7", "balsa:prior=gamma:shape=3")
    found = fw.compare(network, [fw.scheduler(text) for text in texts], 3, 2)
    assert found.schedulers == texts
    both = fw.scheduler("balsa:stage_rule=max1,prior=gamma:shape=3;rate=2")
    (label,) = fw.compare(network, both, 3, 2).schedulers
    assert fw.scheduler(label) == both


def test_a_scheduler_twice_needs_labels() -> None:
    net, twice = fw.paper_network(), ["balsa", "balsa:stage_rule=literal"]
    with refused("balsa", "labels"):
        fw.compare(net, twice, rounds=2, instances=2)
    with pytest.raises(fw.FedwaveError, match="the same as"):
        fw.compare(net, ["balsa:prior=gamma:rate=1", fw.scheduler("balsa:prior=gamma")], 2, 2)
    named = dict(zip(("one", "other"), twice, strict=True))
    found = fw.compare(net, named, rounds=2, instances=2)
    assert found.schedulers == ("one", "other")
    assert found.difference("other", "backlog").mean == 0


def test_instances_for_a_half_width() -> None:
    found = fw.compare(fw.paper_network(), ["alsa-pi", "age"], rounds=12, instances=3)
    spread = found.differences("age", "score").std(ddof=1)
    needed = found.instances_needed("age", 0.8)
    assert needed is not None
    assert needed > 10
    # About 1.96 standard errors reach 0.8 with so many, and not with half of them.
    assert 1.96 * spread / needed**0.5 < 0.8 < 1.96 * spread / (needed / 2) ** 0.5
    with refused("half_width", 0):
        found.instances_needed("age", 0)


def test_no_number_of_copies_narrows_an_interval() -> None:
    rng = np.random.default_rng(0)
    network = fw.paper_network(
        fading=fw.fading.RecordedGains(rng.exponential(size=(6, 25))),
        arrivals=fw.arrivals.RecordedArrivals(rng.poisson(3, size=(6, 25))),
        success="threshold",
    )
    found = fw.compare(network, ["alsa-pi", "max-weight", "random"], rounds=6, instances=3)
    assert found.instances_needed("max-weight", 0.1) is None
    assert found.instances_needed("random", 0.1) is not None
