"""What is written for people and programs is what came out."""

from __future__ import annotations

import csv
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedwave as fw
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.report.figures import common as figures
from fedwave.experiments.report.figures import sweep as sweep_figures
from fedwave.experiments.report.outputs import measure, sweep_rows, write_results
from fedwave.experiments.results.outcome import Outcome
from fedwave.experiments.run.runner import Results, run_experiment
from fedwave.learning.curves import Curves

NAMES = ["max-weight", "alsa-pi", "age"]
SWEEP = experiment_from(
    {
        "name": "two_axes",
        "network": {"kind": "random", "devices": 6, "slots": 2},
        "schedulers": NAMES,
        "rounds": 12, "instances": 4, "burn_in": 3,
        "sweep": {"network.slots": [1, 3], "seed": [5, 6, 7]},
    }
)  # fmt: skip


@pytest.fixture(scope="module")
def results() -> Results:
    return run_experiment(SWEEP, workers=1)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What figures of sweeps are asked for; drawing them takes long."""
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(sweep_figures, "sweep_figure", lambda *words: asked.append(words))
    monkeypatch.setattr(figures, "save_figure", lambda figure, stem: [stem])
    return asked


def backlog(label: str, slots: int, seed: int) -> np.ndarray:
    """By hand: the mean of every instance after the burn-in."""
    trace = fw.simulate(fw.random_network(6, slots), label, 12, 4, seed)
    return trace.backlog[3:].mean(axis=0)


def test_a_figure_for_every_axis_at_every_setting_of_the_others(
    results: Results, drawn: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    _, paths = write_results(results, tmp_path)
    stems = [path.name for path in paths if path.name.startswith("backlog")]
    slots = [f"backlog-network-slots-{k}" for k in (1, 2, 3)]
    assert stems == [*slots, "backlog-seed-1", "backlog-seed-2"]
    asked = [(axis, values, caption) for axis, values, _, _, caption in drawn]
    for (axis, values, caption), seed in zip(asked[:3], (5, 6, 7), strict=True):
        assert (axis, values) == ("network.slots", [1, 3])
        assert caption.startswith(f"seed = {seed}; 4 instances")
    for (axis, values, caption), slots_ in zip(asked[3:], (1, 3), strict=True):
        assert (axis, values) == ("seed", [5, 6, 7])
        assert caption.startswith(f"network.slots = {slots_}; 4 instances")
    _, _, series, metric, _ = drawn[1]
    assert (list(series), metric) == (NAMES, "backlog")
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
        rows = {
            (r["network.slots"], r["seed"], r["scheduler"], r["quantity"]): r
            for r in csv.DictReader(file)
        }
    assert len(rows) == 6 * 3 * 9
    age, base = backlog("age", 3, 7), backlog("alsa-pi", 3, 7)  # alsa-pi is the base, not the first
    assert float(rows["3", "7", "age", "backlog"]["mean"]) == pytest.approx(age.mean())
    found = rows["3", "7", "age", "backlog_difference"]
    assert float(found["mean"]) == pytest.approx((age - base).mean())
    assert float(found["standard_error"]) == pytest.approx((age - base).std(ddof=1) / 2)
    assert float(found["half_width"]) == pytest.approx(3.182446 * (age - base).std(ddof=1) / 2)


def test_tables_have_a_row_for_every_point_and_scheduler(
    results: Results, drawn: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    heading, rows = sweep_rows(results)
    assert heading == [
        "scheduler",
        "network.slots",
        "seed",
        "score",
        "backlog",
        "delivered",
        "jain",
    ]
    assert [row[:3] for row in rows] == [
        [name, slots, seed] for slots in ("1", "3") for seed in ("5", "6", "7") for name in NAMES
    ]
    wanted = backlog("alsa-pi", 3, 5)
    shown = dict(zip(heading, rows[10], strict=True))["backlog"]
    assert float(shown.partition("±")[0]) == pytest.approx(wanted.mean(), abs=0.06)
    write_results(results, tmp_path)
    markdown = (tmp_path / "table.md").read_text().splitlines()
    assert len(markdown) == 2 + len(rows)
    for row, line in zip(rows, markdown[2:], strict=True):
        assert [cell.strip() for cell in line.strip("|").split("|")] == row
    latex = (tmp_path / "table.tex").read_text()
    assert r"\caption{two\_axes: mean and half-width of the 95 \% interval" in latex
    assert latex.count(r"\\") == 1 + len(rows)


def test_sums_leave_out_what_changes_by_itself(
    results: Results, drawn: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    for name in (".lock", "lock.json", "checkpoints/a.npz", "rounds/a.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    write_results(results, tmp_path)
    lines = (tmp_path / "SHA256SUMS").read_text().splitlines()
    sums = {name: sum_ for sum_, name in (line.split("  ") for line in lines)}
    assert set(sums) == {"rounds/a.parquet", "table.md", "table.tex", "summary.csv", "results.nc"}
    for name, sum_ in sums.items():
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == sum_


def test_what_was_learnt_is_measured_after_the_last_round(results: Results) -> None:
    outcome: Outcome = results.points[0].outcomes["age"]
    accuracy = np.zeros((12, 4))
    accuracy[-1] = [0.2, 0.4, np.nan, 0.6]  # one diverged
    curves = Curves("age", accuracy + 1, accuracy, np.zeros((12, 4, 10)), {}, accuracy)
    found = measure(replace(outcome, curves=curves), "accuracy", 3)
    assert found.mean == pytest.approx(0.4)
    assert found.standard_error == pytest.approx(0.2 / 3**0.5)
    assert measure(replace(outcome, curves=curves), "loss", 3).mean == pytest.approx(1.4)
    gone = replace(curves, accuracy=accuracy * np.nan)
    assert np.isnan(measure(replace(outcome, curves=gone), "accuracy", 3).mean)
    assert measure(outcome, "worst_age", 3).mean == outcome.series["worst_age"].max(axis=0).mean()


def test_a_single_point_has_no_figure_of_a_sweep(
    results: Results, drawn: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    with pytest.raises(fw.FedwaveError, match="has 6 points, not one: use `fedwave sweep`"):
        _ = results.only
    point = results.points[0]
    single = Results(point.experiment, [replace(point, where={})])
    rows, paths = write_results(single, tmp_path)
    assert [row.label for row in rows] == NAMES
    assert not drawn
    assert [path.name for path in paths] == [
        "figure2", "figure2-all", "rounds.csv", "instances.csv", "summary.json", "table.md", "table.tex",
        "summary.csv", "results.nc",
    ]  # fmt: skip
