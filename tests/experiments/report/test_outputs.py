"""What is written for people and programs is what came out."""

from __future__ import annotations

import csv
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from refusals import mentions

import fedwave as fw
from fedwave.cli.output import result_tables
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.report.figures import common as figures
from fedwave.experiments.report.figures import sweep as sweep_figures
from fedwave.experiments.report.outputs import write_results
from fedwave.experiments.report.summary import comparison_of, full_table
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.store.dataset import Point, Results, metrics_of
from fedwave.experiments.store.load import to_dataset

NAMES = ["max-weight", "alsa-pi", "age"]
SWEEP = experiment_from(
    {
        "name": "two_axes",
        "network": {"kind": "random", "devices": 6, "slots": 2},
        "schedulers": NAMES,
        "rounds": 12,
        "instances": 4,
        "burn_in": 3,
        "sweep": {"network.slots": [1, 3], "seed": [5, 6, 7]},
    }
)


@pytest.fixture(scope="module")
def results() -> Results:
    return run_experiment(SWEEP, workers=1)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What figures of sweeps are asked for; drawing them takes long."""
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(sweep_figures, "bands_figure", lambda *words: asked.append(words))
    monkeypatch.setattr(figures, "save_figure", lambda figure, stem: [stem])
    return asked


def backlog(label: str, slots: int, seed: int) -> np.ndarray:
    """By hand: the mean of every instance after the burn-in."""
    trace = fw.simulate(fw.random_network(6, slots), label, 12, 4, seed)
    return trace.backlog[3:].mean(axis=0)


def test_a_figure_for_every_axis_at_every_setting_of_the_others(
    results: Results, drawn: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    paths = write_results(results, tmp_path)
    stems = [path.name for path in paths if path.name.startswith("backlog")]
    slots = [f"backlog-network-slots-{k}" for k in (1, 2, 3)]
    assert stems == [*slots, "backlog-seed-1", "backlog-seed-2"]
    asked = [(names[1], values, names[0]) for values, _, names, _, _ in drawn]
    for (axis, values, title), seed in zip(asked[:3], (5, 6, 7), strict=True):
        assert (axis, values) == ("Slots W", [1, 3])
        assert mentions(title, "U = 6", "12 rounds", "4 instances", f"seed {seed}")
    for (axis, values, title), slots_ in zip(asked[3:], (1, 3), strict=True):
        assert (axis, values) == ("Seed", [5, 6, 7])
        assert mentions(title, "U = 6", f"W = {slots_}", "12 rounds", "4 instances")
    _, series, (_, _, metric), caption, floor = drawn[1]
    assert (list(series), metric, floor) == (NAMES, "Backlog (shards)", 0)
    assert mentions(caption, "95 %", "3 rounds")
    mean, half = series["age"]
    by_hand = [backlog("age", 1, 6), backlog("age", 3, 6)]
    assert mean == pytest.approx([x.mean() for x in by_hand])
    # Student t with 3 degrees of freedom reaches 3.182446 standard errors.
    assert half == pytest.approx([3.182446 * x.std(ddof=1) / 2 for x in by_hand], rel=1e-6)


def test_the_summary_holds_every_number_and_paired_differences(
    results: Results, drawn: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    write_results(results, tmp_path)
    with open(tmp_path / "summary.csv", newline="") as file:
        rows = {(r["network.slots"], r["seed"], r["scheduler"], r["metric"]): r for r in csv.DictReader(file)}
    assert len(rows) == 6 * 3 * (len(metrics_of(results.points[0].data)) + 1)  # and the quantile of the backlog
    age, base = backlog("age", 3, 7), backlog("alsa-pi", 3, 7)  # alsa-pi is the base, not the first
    assert float(rows["3", "7", "age", "backlog"]["mean"]) == pytest.approx(age.mean())
    found = rows["3", "7", "age", "backlog"]
    assert float(found["standard_error"]) == pytest.approx(age.std(ddof=1) / 2)
    assert float(found["difference"]) == pytest.approx((age - base).mean())
    half = 3.182446 * (age - base).std(ddof=1) / 2
    assert float(found["difference_half_width"]) == pytest.approx(half)
    assert found["instances"] == "4"


def test_tables_have_a_row_for_every_point_and_scheduler(
    results: Results, drawn: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    heading, rows = full_table(results)
    found = comparison_of(results.points[0])
    assert found.metrics[0] == "backlog"  # the metric of the experiment comes first
    assert sorted(found.metrics) == sorted([*metrics_of(results.points[0].data), "backlog_p99"])
    named = [found.long_names[name] for name in found.metrics]
    assert heading == ["Scheduler", "Slots W", "Seed", *named]
    means, differences = ([column.header for column in table.columns][3:] for table in result_tables(results))
    assert means == ["backlog", "99 %", "score", "age", "worst", "delivered", "Jain"]
    assert differences == ["backlog", "in %", "score", "age", "delivered", "Jain"]
    assert [row[:3] for row in rows] == [
        [name, *map(str, point.where.values())] for point in results.points for name in comparison_of(point).ranking
    ]
    wanted = backlog("alsa-pi", 3, 5)
    row = next(row for row in rows if row[:3] == ["alsa-pi", "3", "5"])
    shown = dict(zip(heading, row, strict=True))["Backlog (shards)"]
    assert float(shown.partition("±")[0]) == pytest.approx(wanted.mean(), abs=0.06)
    apart_heading, apart = full_table(results, paired=True)
    assert apart_heading == ["vs alsa-pi", *heading[1:]]
    assert len(apart) == len(rows) - 6  # none of the base
    for column, metric in ((3, "backlog"), (-1, found.metrics[-1])):
        mean = comparison_of(results.points[3]).difference("age", metric).mean
        assert float(apart[7][column].partition("±")[0]) == pytest.approx(mean, abs=0.06)


def test_tables_of_means_and_differences_are_written_for_pages_and_papers(
    results: Results, drawn: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    write_results(results, tmp_path)
    (_, rows), (_, apart) = full_table(results), full_table(results, paired=True)
    page = (tmp_path / "table.md").read_text().splitlines()
    title = "two_axes: U = 6, γ = 0.01, 12 rounds, 4 instances"  # W and the seed vary
    assert page[0] == f"**{title}.**"
    assert any(mentions(line, "alsa-pi", title) for line in page)
    lines = [line for line in page if line.startswith("|") and not line.startswith("|:")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[1 : 1 + len(rows)] == rows
    assert cells[2 + len(rows) :] == apart
    assert "±: half-width" in page[-1]
    latex = (tmp_path / "table.tex").read_text()
    assert mentions(latex, r"\caption{two\_axes", r"$\gamma$ = 0.01", "12 rounds, 4 instances")
    assert latex.count(r"\\") == 2 + len(rows) + len(apart)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["metric"] == "backlog"
    point = summary["points"][3]
    assert point["where"] == {"network.slots": 3, "seed": 5}
    for metric in comparison_of(results.points[3]).metrics:
        wanted = comparison_of(results.points[3]).difference("age", metric)
        assert point["schedulers"]["age"][f"{metric}_difference"] == vars(wanted)


def test_sums_are_of_what_fedwave_wrote(results: Results, drawn: list[tuple[Any, ...]], tmp_path: Path) -> None:
    for name in (".lock", "lock.json", "checkpoints/a.npz", "rounds/a.parquet", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    write_results(results, tmp_path)
    lines = (tmp_path / "SHA256SUMS").read_text().splitlines()
    sums = {name: sum_ for sum_, name in (line.split("  ") for line in lines)}
    assert set(sums) == {"summary.json", "table.md", "table.tex", "summary.csv", "results.nc"}
    for name, sum_ in sums.items():
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == sum_


def with_extra(point: Point, name: str, values: Any, **about: str) -> Point:
    """The same point with another metric ``[scheduler, instance, round]``."""
    dims = ("scheduler", "instance", "round")
    return replace(point, data=point.data.assign({name: (dims, values, about)}))


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_mean_that_leaves_instances_out_says_so_everywhere(tmp_path: Path, drawn: list[tuple[Any, ...]]) -> None:
    how = experiment_from({"schedulers": ["age", "alsa-pi"], "rounds": 4, "instances": 4})
    by_instance = np.array([[np.inf, np.nan, 3.0, 4.0], [np.inf, 1.0, 1.0, 2.0]])
    ratio = np.repeat(by_instance[:, :, None], 4, axis=2)
    point = with_extra(run_experiment(how, workers=1).only, "ratio", ratio, over_rounds="mean")
    results = Results(how, [point])
    write_results(results, tmp_path)
    for name in ("table.md", "table.tex"):
        text = (tmp_path / name).read_text().replace("$\\pm$", "±")
        for cell in ("3.5±6.4 (2 of 4)", "1.3±1.4 (3 of 4)", "+2.00±0.00 (2 of 4)", "(n of N)"):
            assert cell in text, name
    tables = result_tables(results)
    assert mentions(tables[-1].caption, "(n of N)")
    shown = [list(table.columns[-1].cells) for table in tables]
    assert shown == [["1.3±1.4 (3 of 4)", "3.5±6.4 (2 of 4)"], ["+2.00±0.00 (2 of 4)"]]
    told = json.loads((tmp_path / "summary.json").read_text())["schedulers"]["age"]
    assert (told["ratio"]["instances"], told["ratio_difference"]["instances"]) == (2, 2)
    assert told["backlog"]["instances"] == 4
    with open(tmp_path / "summary.csv", newline="") as file:
        row = next(row for row in csv.DictReader(file) if row["metric"] == "ratio")
    assert (row["instances"], row["difference_instances"]) == ("2", "2")
    found = comparison_of(point)
    assert mentions(repr(found), "(n of N)")
    assert mentions(found.plot("ratio").get_supxlabel(), "(n of N)")
    assert "of 4" not in found.plot("backlog").get_supxlabel()


def test_a_metric_of_the_users_own_is_everywhere(results: Results, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    drawn = [rng.random((3, 4, 12)) for _ in results.points]
    points = [
        with_extra(point, "surprise", values, long_name="surprise (bits)", over_rounds="max")
        for point, values in zip(results.points, drawn, strict=True)
    ]
    asked = replace(SWEEP)
    object.__setattr__(asked, "metric", "surprise")  # its name is checked where metrics are declared
    own = Results(asked, points)
    paths = write_results(own, tmp_path)
    assert "surprise-network-slots-1.png" in [path.name for path in paths]
    figure = sweep_figures.sweep_figure([points[0], points[3]], "network.slots", "surprise")
    assert figure.axes[0].get_ylabel() == "surprise (bits)"
    shown = {str(line.get_label()): line.get_ydata() for line in figure.axes[0].get_lines()}
    by_hand = [values[2].max(axis=1).mean() for values in (drawn[0], drawn[3])]
    assert shown["age"] == pytest.approx(by_hand)
    assert "surprise" in (tmp_path / "table.md").read_text().splitlines()[2]
    assert "surprise" in (tmp_path / "table.tex").read_text()
    assert "surprise" in [column.header for column in result_tables(own)[0].columns]
    with open(tmp_path / "summary.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "surprise"]
    assert float(rows[2]["mean"]) == pytest.approx(by_hand[0])
    apart = drawn[0][2].max(axis=1) - drawn[0][1].max(axis=1)
    assert float(rows[2]["difference"]) == pytest.approx(apart.mean())
    with xr.open_dataset(tmp_path / "results.nc") as plain:
        np.testing.assert_array_equal(plain.surprise, to_dataset(own).surprise)
        assert plain.surprise.attrs == {"long_name": "surprise (bits)", "over_rounds": "max"}
