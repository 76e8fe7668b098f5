"""Learning experiments: what is written is what was trained, also when it was stopped half way."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from refusals import mentions

import fedwave as fw
from fedwave.experiments.analysis.captions import is_synthetic
from fedwave.experiments.config.build import network_of, task_of
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.report.figures.learning import Learning, curves_figure, single_figure, targets_figure
from fedwave.experiments.report.outputs import write_learning
from fedwave.experiments.report.summary import comparison_of, full_table, summary
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.store.dataset import Point, Results, curves_of, scheduler_labels, unit_dataset
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.load import results_of
from fedwave.files.writing import json_text
from fedwave.learning.evaluation import EvaluationSizes

NAMES = ("bench", "update-aware", "alsa-pi", "w-max")
SEED = 4
ASKED = experiment_from(
    {
        "network": {"kind": "random", "devices": 5, "slots": 2, "rate": 1},
        "schedulers": list(NAMES),
        "task": {"dataset": "synthetic", "model": "logistic", "shard_size": 4, "batch": 4, "epochs": 1, "eta": 0.02},
        "training": {"precision": "float64", "device": "cpu", "loss_images": 100, "test_images": 100, "full_every": 5},
        "rounds": 12,
        "instances": 3,
        "seed": SEED,
        "targets": [0.1, 0.3, 0.9],
        "block": 3,
        "group": 4,
    }
)
FIGURES = ("learning-curves", "one-instance", "targets")
FILES = {f"{name}.{kind}" for name in FIGURES for kind in ("png", "svg")}
FILES |= {"curves.csv", "targets.csv"}


def run(*names: str, folder: Path | None = None, **changes: Any) -> Point:
    return run_experiment(replace(ASKED, schedulers=names or NAMES, **changes), folder, workers=1).only


def whole(point: Point) -> Results:
    return Results(point.experiment, [point])


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """The model is tiny: a second thread only waits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("learning") / "new"


@pytest.fixture(scope="module")
def learned(folder: Path) -> Point:
    out = run()
    write_learning(out, folder)
    return out


def with_accuracy(learned: Point, **last: list[float]) -> Point:
    """The same with other accuracies after the last round; NaN: that instance diverged there."""
    data = learned.data.copy(deep=True)
    for key, values in last.items():
        here = {"scheduler": key.replace("_", "-"), "round": data.sizes["round"]}
        data.accuracy.loc[here] = values
        for name in ("loss", "class_accuracy", "worst_class"):
            data[name].loc[{**here, "instance": np.flatnonzero(np.isnan(values))}] = np.nan
    return replace(learned, data=data)


def legend(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_curves_are_those_of_training_alone(learned: Point) -> None:
    assert scheduler_labels(learned.data) == list(NAMES)
    network, sizes = network_of(ASKED.network), EvaluationSizes(100, 100, 5)
    assert ASKED.task is not None
    task = task_of(ASKED.task)
    for label in NAMES:
        if label == "update-aware":
            trace, alone = fw.train_in_lock_step(network, label, task, 12, 3, SEED, sizes=sizes, precision="float64")
        else:
            trace = fw.simulate(network, label, 12, 3, SEED)
            alone = fw.train(trace, task, sizes=sizes, tolerance=1e-6, precision="float64")
        simulated = unit_dataset({label: trace})
        same = learned.data[list(simulated)].sel(scheduler=[label])
        assert same.drop_attrs(deep=False).identical(simulated.drop_attrs(deep=False))
        found = curves_of(learned.data, label)
        np.testing.assert_allclose(found.loss, alone.loss, rtol=1e-4)
        np.testing.assert_allclose(found.accuracy, alone.accuracy, atol=0.011)
    worst = learned.data.class_accuracy.min("class")
    np.testing.assert_array_equal(learned.data.worst_class, worst)
    # Rounds 5, 10 and the last are judged on all 2000 images too.
    full = curves_of(learned.data, "bench").accuracy_on_all
    assert full is not None
    assert np.flatnonzero(np.isfinite(full).all(axis=1)).tolist() == [4, 9, 11]
    assert np.isfinite(full).sum() == 3 * 3


def test_files_are_complete(folder: Path, learned: Point) -> None:
    assert {path.name for path in folder.iterdir()} == FILES  # no checkpoint, no unfinished file
    for name in FIGURES:
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (folder / f"{name}.svg").read_text()


def test_csv_holds_the_curves(folder: Path, learned: Point) -> None:
    with open(folder / "curves.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(NAMES) * 3 * 12
    for row in rows:
        here: dict[str, Any] = {"scheduler": row["scheduler"]}
        here |= {"round": int(row["round"]), "instance": int(row["instance"])}
        for name in ("loss", "accuracy", "accuracy_on_all"):
            wanted = float(learned.data[name].sel(here))
            assert float(row[name] or "nan") == pytest.approx(wanted, rel=1e-5, nan_ok=True)
    assert len({(row["scheduler"], row["instance"], row["round"]) for row in rows}) == len(rows)


def test_summary_is_json(learned: Point) -> None:
    found = json.loads(json_text(summary(whole(learned))))
    how = found["experiment"]
    assert (how["seed"], how["rounds"], how["task"]["eta"]) == (SEED, 12, 0.02)
    assert (found["synthetic"], found["fedwave"]) == (False, fw.__version__)
    assert list(found["schedulers"]) == list(NAMES)
    wanted = curves_of(learned.data, "w-max")
    assert found["schedulers"]["w-max"]["accuracy"]["mean"] == pytest.approx(wanted.accuracy[-1].mean())
    assert found["class_accuracy"]["w-max"] == pytest.approx(wanted.class_accuracy[-1].mean(axis=0), abs=1e-6)
    assert found["uploads_per_device"]["bench"] == [12.0] * 5


def test_comparison_by_hand(learned: Point) -> None:
    changed = with_accuracy(learned, bench=[0.5, 0.7, 0.9], alsa_pi=[0.5, 0.6, 0.7], w_max=[0.4, 0.6, 0.5])
    found = comparison_of(changed)
    assert found.base == "alsa-pi"
    assert found.brief[:2] == ("accuracy", "loss")
    assert found.estimate("bench", "accuracy").mean == pytest.approx(0.7)
    # Student t with 2 degrees of freedom reaches 4.302653 standard errors; deviation .2 over 3.
    half = found.estimate("bench", "accuracy").half_width
    assert half == pytest.approx(4.302653 * 0.2 / 3**0.5)
    assert found.difference("alsa-pi", "accuracy").mean == 0
    # Differences 0, .1, .2 and -.1, 0, -.2: both of deviation .1, though the accuracies spread more.
    for label, mean in (("bench", 0.1), ("w-max", -0.1)):
        apart = found.difference(label, "accuracy")
        assert apart.mean == pytest.approx(mean)
        assert apart.half_width == pytest.approx(4.302653 * 0.1 / 3**0.5)
    trace = fw.simulate(network_of(ASKED.network), "w-max", 12, 3, SEED)
    assert found.estimate("w-max", "backlog").mean == pytest.approx(trace.backlog.mean())
    curves = curves_of(learned.data, "w-max")
    assert found.estimate("w-max", "loss").mean == pytest.approx(curves.loss[-1].mean())
    assert found.estimate("w-max", "spikes").mean == curves.spikes().mean()
    brought = trace.final.learned.sum(axis=1) / trace.arrivals.sum(axis=(0, 2))
    assert found.estimate("w-max", "delivered_share").mean == pytest.approx(brought.mean())
    of_bench = [found.estimate("bench", name).mean for name in ("delivered_share", "jain", "backlog")]
    assert of_bench == [1, 1, 0]


def test_a_diverged_instance_is_marked_and_left_out(learned: Point) -> None:
    changed = with_accuracy(learned, w_max=[0.4, np.nan, 0.5], alsa_pi=[0.5, 0.6, 0.7])
    found = comparison_of(changed)
    assert [found.diverged(label) for label in NAMES] == [0, 0, 0, 1]
    assert "w-max (1 diverged)" in repr(found)
    assert found.estimate("w-max", "accuracy").mean == pytest.approx(0.45)
    apart = found.difference("w-max", "accuracy")
    assert apart.mean == pytest.approx(-0.15)  # of -.1 and -.2
    assert len(found.differences("w-max", "accuracy")) == 2
    table = found.to_pandas().set_index(["scheduler", "metric"])
    assert table.loc[("w-max", "accuracy"), "instances"] == 2
    assert table.loc[("w-max", "backlog"), "instances"] == 3
    for draw in (curves_figure, single_figure, targets_figure):
        assert [name.startswith("W-max (1 diverged)") for name in legend(draw(Learning.of(changed)))] == [
            False,
            False,
            False,
            True,
        ]
        assert not any("diverged" in name for name in legend(draw(Learning.of(learned))))


def test_all_of_a_scheduler_diverge_at_once(learned: Point, tmp_path: Path) -> None:
    data = learned.data.copy(deep=True)
    for name in ("loss", "accuracy", "class_accuracy", "worst_class"):
        data[name].loc[{"scheduler": "alsa-pi"}] = np.nan
    gone = replace(learned, data=data)
    write_learning(gone, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == FILES
    found = comparison_of(gone)
    assert [found.diverged(label) for label in NAMES] == [0, 0, 3, 0]
    assert np.isnan(found.difference("w-max", "accuracy").mean)
    assert found.cells("alsa-pi", ["loss", "spikes"]) == ["-", "-"]  # not 0 spikes
    assert found.cells("w-max", ["spikes"], paired=True) == ["-"]


def test_targets_reached_by_hand(learned: Point, tmp_path: Path) -> None:
    changed = with_accuracy(learned, w_max=[0.05, 0.2, 0.4])
    left, right = targets_figure(Learning.of(changed)).axes
    shares = {line.get_label(): line.get_ydata() for line in left.get_lines()}
    assert list(shares["W-max"]) == pytest.approx([2 / 3, 1 / 3, 0])
    means = right.get_lines()[NAMES.index("bench")].get_ydata()
    needed = curves_of(learned.data, "bench").rounds_to(0.1)
    assert np.isfinite(needed).all()
    assert means[0] == pytest.approx(needed.mean())
    assert np.isnan(means[2])  # nobody beats .9
    write_learning(changed, tmp_path)
    with open(tmp_path / "targets.csv", newline="") as file:
        rows = {(row["scheduler"], row["target"]): row for row in csv.DictReader(file)}
    assert list(rows) == [(name, target) for name in NAMES for target in ("0.1", "0.3", "0.9")]
    row = rows["bench", "0.1"]
    assert float(row["rounds_of_those_that_did"]) == pytest.approx(needed.mean(), rel=1e-5)
    assert (row["instances"], row["never"]) == ("3", "0")
    table = [float(rows["w-max", target]["share_reached_at_the_end"]) for target in ("0.1", "0.3")]
    assert table == pytest.approx([2 / 3, 1 / 3])
    never = rows["bench", "0.9"]  # nobody beats it: all count as the last round, and nothing is known of others
    assert (never["never"], never["rounds_never_counted_as_last"]) == ("3", "12")
    assert (never["rounds_of_those_that_did"], never["low"], never["high"]) == ("", "", "")


def test_only_schedulers_that_look_at_the_models(learned: Point) -> None:
    alone = run("update-aware")
    beside = learned.data.loss.sel(scheduler=["update-aware"])
    np.testing.assert_array_equal(alone.data.loss, beside)
    assert comparison_of(alone).base == "update-aware"  # alsa-pi is not there


def test_divergence_is_kept_and_told(tmp_path: Path) -> None:
    """A learning rate far too large: numbers that are not there are stored as such, and counted."""
    wild = replace(ASKED.task, eta=1e15, l2=1e15)
    made = run("bench", "update-aware", folder=tmp_path, task=wild, rounds=10, targets=())
    nothing_asked = {"targets.png", "targets.svg", "targets.csv"}
    stored = results_of(RunFolder(tmp_path)).only
    assert stored.data.identical(made.data)
    paths = write_learning(stored, tmp_path / "drawn")
    assert {path.name for path in paths} == FILES - nothing_asked
    found = comparison_of(stored)
    for label in ("bench", "update-aware"):
        assert found.diverged(label) == 3
        assert np.isnan(curves_of(stored.data, label).accuracy[-1]).all()
    told = json.loads(json_text(summary(whole(stored))))
    assert told["schedulers"]["bench"]["accuracy"]["mean"] is None  # NaN is no JSON
    assert told["schedulers"]["bench"]["diverged"] == 3
    assert ",10,,,\n" in (tmp_path / "drawn" / "curves.csv").read_text()


def test_captions_call_a_stand_in_one_and_state_the_images_that_were_used(learned: Point) -> None:
    more = replace(ASKED.training, test_images=5000, loss_images=150)  # there are only 2,000 test images
    stand_in = run("w-max", task=replace(ASKED.task, instead_of="mnist"), training=more, rounds=2, instances=1)
    assert is_synthetic(stand_in.experiment)
    assert not is_synthetic(learned.experiment)  # it was asked for
    assert summary(whole(stand_in))["synthetic"] is True
    for draw in (curves_figure, single_figure, targets_figure):
        caption, other = (draw(Learning.of(point)).get_supxlabel() for point in (stand_in, learned))
        assert mentions(caption, "SYNTHETIC DATA", "mnist", "2,000 test images", "150 training images")
        assert mentions(other, "100 test images")
        assert "SYNTHETIC" not in other


def test_figures_of_learning_say_what_was_run_and_explain_only_what_is_drawn(learned: Point) -> None:
    for draw in (curves_figure, single_figure, targets_figure):
        title = draw(Learning.of(learned)).legends[0].get_title().get_text()
        assert mentions(title, "U = 5", "W = 2", "12 rounds", "3 instances", "seed 4")
    some = with_accuracy(learned, w_max=[0.05, 0.2, 0.4])
    for point in (learned, some):
        figure = targets_figure(Learning.of(point))
        means, full = (np.array([x.get_ydata() for x in figure.axes[1].get_lines()[k::2]]) for k in (0, 1))
        hollow = np.isfinite(means) & ~np.isfinite(full)
        assert hollow.any() == ("never" in figure.get_supxlabel())
    everyone = replace(learned, experiment=replace(learned.experiment, targets=(0.001,)))
    caption = targets_figure(Learning.of(everyone)).get_supxlabel()
    assert "never" not in caption
    assert "No point" not in caption


def test_a_mean_that_leaves_instances_out_is_hollow(learned: Point) -> None:
    data = learned.data.copy(deep=True)
    for place, label in enumerate(NAMES):  # constant, two of three instances between the targets
        for instance, accuracy in enumerate((0.1, 0.25, 0.35 + 0.2 * (place == 0))):
            where = {"scheduler": label, "instance": data.instance[instance]}
            data.accuracy.loc[where] = accuracy
    targets = (0.05, 0.2, 0.3, 0.5)
    point = replace(learned, data=data, experiment=replace(learned.experiment, targets=targets))
    figure = targets_figure(Learning.of(point))
    means, full = figure.axes[1].get_lines()[:2]  # of bench; where it is not full, its marker is hollow
    assert means.get_markerfacecolor() == "white"
    assert np.isfinite(means.get_ydata()).all()
    assert np.isfinite(full.get_ydata()).tolist() == [True, False, False, False]
    assert mentions(figure.get_supxlabel(), "Hollow", "No point in (b)")


def test_what_was_asked_for_comes_first_and_what_was_never_measured_is_no_column(learned: Point) -> None:
    assert (ASKED.metric, Experiment().metric, Experiment(task=ASKED.task, metric="jain").metric) == (
        "accuracy",
        "backlog",
        "jain",
    )
    found = comparison_of(learned)
    assert found.metrics[:2] == ("accuracy", "loss")
    assert "accuracy_on_all" in found.metrics
    for first, order in (("jain", ("jain", "accuracy", "loss")), ("loss", ("loss", "accuracy"))):
        other = replace(learned, experiment=replace(learned.experiment, metric=first))
        assert comparison_of(other).metrics[: len(order)] == order
    plain = run("w-max", training=replace(ASKED.training, full_every=0), rounds=2, instances=1)
    assert "accuracy_on_all" not in comparison_of(plain).metrics
    assert "nan" not in repr(comparison_of(plain))
    # A table has the metrics that all its points have.
    swept = Results(replace(plain.experiment, sweep={"training.full_every": (5, 0)}), [learned, plain])
    for paired in (False, True):
        heading, rows = full_table(replace(swept, points=[replace(p, where={"x": 1}) for p in swept.points]), paired)
        assert {len(row) for row in rows} == {len(heading)}
        assert "Accuracy on all" not in heading
