"""Learning experiments: what is written is what was trained, also when it was stopped half way."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedwave as fw
from fedwave.experiments.config.build import network_of, task_of
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.report.figures.learning import curves_figure, single_figure, targets_figure
from fedwave.experiments.report.learning import Learned, learning_table, write_learning
from fedwave.experiments.results.outcome import Outcome
from fedwave.experiments.run.runner import Event, run_experiment, stored_results
from fedwave.learning.evaluation import EvaluationSizes

NAMES = ("bench", "update-aware", "alsa-pi", "w-max")
SEED = 4
ASKED = experiment_from(
    {
        "network": {"kind": "random", "devices": 5, "slots": 2, "rate": 1},
        "schedulers": list(NAMES),
        "task": {
            "dataset": "synthetic", "model": "logistic", "shard_size": 4, "batch": 4, "epochs": 1, "eta": 0.02,
        },
        "training": {
            "precision": "float64", "device": "cpu", "loss_images": 100, "test_images": 100, "full_every": 5,
        },
        "rounds": 12, "instances": 3, "seed": SEED, "targets": [0.1, 0.3, 0.9],
        # All that can be is trained together: one unit, so that it is known when it stops.
        "block": 3, "group": 4, "checkpoint_seconds": 0,
    }
)  # fmt: skip
FILES = {f"figure{n}.{kind}" for n in (3, 4, 5) for kind in ("png", "svg")}
FILES |= {"curves.csv", "targets.csv", "summary.json"}


def run(
    *names: str, folder: Path | None = None, watch: Callable[[Event], None] | None = None, **changes: Any
) -> Learned:  # fmt: skip
    asked = replace(ASKED, schedulers=names or NAMES, **changes)
    return Learned.of(run_experiment(asked, folder, workers=1, watch=watch).only)


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
def learned(folder: Path) -> Learned:
    out = run()
    write_learning(out, folder)
    return out


def with_accuracy(learned: Learned, **last: list[float]) -> Learned:
    """The same with other accuracies after the last round; NaN: that instance diverged there."""
    curves = dict(learned.curves)
    for key, values in last.items():
        label = key.replace("_", "-")
        loss, accuracy = curves[label].loss.copy(), curves[label].accuracy.copy()
        accuracy[-1] = values
        loss[-1] = np.where(np.isnan(values), np.nan, loss[-1])
        by_class = curves[label].class_accuracy.copy()
        by_class[-1, np.isnan(values)] = np.nan
        curves[label] = replace(
            curves[label], loss=loss, accuracy=accuracy, class_accuracy=by_class
        )
    return replace(learned, curves=curves)


def legend(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_curves_are_those_of_training_alone(learned: Learned) -> None:
    assert list(learned.curves) == list(NAMES)
    network, task, sizes = network_of(ASKED.network), task_of(learned.task), EvaluationSizes(100, 100, 5)  # fmt: skip
    for label in NAMES:
        if label == "update-aware":
            trace, alone = fw.train_in_lock_step(
                network, label, task, 12, 3, SEED, sizes=sizes, precision="float64"
            )
        else:
            trace = fw.simulate(network, label, 12, 3, SEED)
            alone = fw.train(trace, task, sizes=sizes, tolerance=1e-6, precision="float64")
        assert replace(learned.outcomes[label], curves=None).same_as(Outcome.of(trace))
        np.testing.assert_allclose(learned.curves[label].loss, alone.loss, rtol=1e-4)
        np.testing.assert_allclose(learned.curves[label].accuracy, alone.accuracy, atol=0.011)
    # Rounds 5, 10 and the last are judged on all 2000 images too.
    full = learned.curves["bench"].accuracy_on_all
    assert full is not None
    assert np.flatnonzero(np.isfinite(full).all(axis=1)).tolist() == [4, 9, 11]
    assert np.isfinite(full).sum() == 3 * 3


def test_files_are_complete(folder: Path, learned: Learned) -> None:
    assert {path.name for path in folder.iterdir()} == FILES  # no checkpoint, no unfinished file
    for n in (3, 4, 5):
        assert (folder / f"figure{n}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (folder / f"figure{n}.svg").read_text()


def test_csv_holds_the_curves(folder: Path, learned: Learned) -> None:
    with open(folder / "curves.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(NAMES) * 3 * 12
    for row in rows:
        curves, at = learned.curves[row["scheduler"]], (int(row["round"]) - 1, int(row["instance"]))
        assert float(row["loss"]) == pytest.approx(curves.loss[at], rel=1e-5)
        assert float(row["accuracy"]) == pytest.approx(curves.accuracy[at], rel=1e-5)
        on_all = curves.accuracy_on_all[at]
        assert float(row["accuracy_on_all"] or "nan") == pytest.approx(
            on_all, rel=1e-5, nan_ok=True
        )
    assert len({(row["scheduler"], row["instance"], row["round"]) for row in rows}) == len(rows)


def test_summary_is_json(folder: Path, learned: Learned) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    how = summary["experiment"]
    assert (how["seed"], how["rounds"], how["task"]["eta"]) == (SEED, 12, 0.02)
    assert (summary["synthetic"], summary["fedwave"]) == (False, fw.__version__)
    assert list(summary["schedulers"]) == list(NAMES)
    wanted = learned.curves["w-max"]
    assert summary["schedulers"]["w-max"]["accuracy"]["mean"] == pytest.approx(
        wanted.accuracy[-1].mean()
    )
    assert summary["class_accuracy"]["w-max"] == pytest.approx(
        wanted.class_accuracy[-1].mean(axis=0), abs=1e-6
    )
    assert summary["uploads_per_device"]["bench"] == [12.0] * 5


def test_table_by_hand(learned: Learned) -> None:
    changed = with_accuracy(
        learned, bench=[0.5, 0.7, 0.9], alsa_pi=[0.5, 0.6, 0.7], w_max=[0.4, 0.6, 0.5]
    )
    rows = {row.label: row for row in learning_table(changed)}
    assert rows["bench"].accuracy.mean == pytest.approx(0.7)
    # Student t with 2 degrees of freedom reaches 4.302653 standard errors; deviation .2 over 3.
    assert rows["bench"].accuracy.half_width == pytest.approx(4.302653 * 0.2 / 3**0.5)
    assert rows["alsa-pi"].difference.mean == 0
    # Differences 0, .1, .2 and -.1, 0, -.2: both of deviation .1, though the accuracies spread more.
    assert rows["bench"].difference.mean == pytest.approx(0.1)
    assert rows["w-max"].difference.mean == pytest.approx(-0.1)
    for label in ("bench", "w-max"):
        assert rows[label].difference.half_width == pytest.approx(4.302653 * 0.1 / 3**0.5)
    trace = fw.simulate(network_of(ASKED.network), "w-max", 12, 3, SEED)
    assert rows["w-max"].backlog == pytest.approx(trace.backlog.mean())
    assert rows["w-max"].loss.mean == pytest.approx(learned.curves["w-max"].loss[-1].mean())
    brought = trace.final.learned.sum(axis=1) / trace.arrivals.sum(axis=(0, 2))
    assert rows["w-max"].delivered == pytest.approx(brought.mean())
    assert (rows["bench"].delivered, rows["bench"].jain, rows["bench"].backlog) == (1, 1, 0)


def test_differences_are_from_the_first_where_alsa_pi_was_not_run(learned: Learned) -> None:
    without = replace(learned.experiment, schedulers=("w-max", "bench"))
    curves = {k: learned.curves[k] for k in without.schedulers}
    some = replace(learned, experiment=without, curves=curves)
    rows = learning_table(some)
    assert (learned.base, some.base) == ("alsa-pi", "w-max")
    assert rows[0].difference.mean == 0
    wanted = learned.curves["bench"].accuracy[-1] - learned.curves["w-max"].accuracy[-1]
    assert rows[1].difference.mean == pytest.approx(wanted.mean())


def test_a_diverged_instance_is_marked_and_left_out(learned: Learned) -> None:
    changed = with_accuracy(learned, w_max=[0.4, np.nan, 0.5], alsa_pi=[0.5, 0.6, 0.7])
    row = learning_table(changed)[-1]
    assert (row.label, row.diverged) == ("w-max", 1)
    assert row.accuracy.mean == pytest.approx(0.45)
    assert row.difference.mean == pytest.approx(-0.15)  # of -.1 and -.2
    for draw in (curves_figure, single_figure, targets_figure):
        assert [name.startswith("W-max (1 diverged)") for name in legend(draw(changed))] == [
            False,
            False,
            False,
            True,
        ]
        assert not any("diverged" in name for name in legend(draw(learned)))


def test_all_of_a_scheduler_diverge_at_once(learned: Learned, tmp_path: Path) -> None:
    def gone(array: Any) -> Any:
        return np.full_like(array, np.nan)

    nothing = {
        label: replace(
            c, loss=gone(c.loss), accuracy=gone(c.accuracy), class_accuracy=gone(c.class_accuracy)
        )
        for label, c in learned.curves.items()
    }
    for lost in (("alsa-pi",), NAMES):
        curves = {label: (nothing if label in lost else learned.curves)[label] for label in NAMES}
        rows, _ = write_learning(replace(learned, curves=curves), tmp_path)
        assert [row.diverged for row in rows] == [3 * (label in lost) for label in NAMES]
        assert {path.name for path in tmp_path.iterdir()} == FILES


def test_targets_reached_by_hand(learned: Learned) -> None:
    changed = with_accuracy(learned, w_max=[0.05, 0.2, 0.4])
    left, right = targets_figure(changed).axes
    shares = {line.get_label(): line.get_ydata() for line in left.get_lines()}
    assert list(shares["W-max"]) == pytest.approx([2 / 3, 1 / 3, 0])
    means = right.get_lines()[NAMES.index("bench")].get_ydata()
    needed = learned.curves["bench"].rounds_to(0.1)
    assert np.isfinite(needed).all()
    assert means[0] == pytest.approx(needed.mean())
    assert np.isnan(means[2])  # nobody beats .9


def test_targets_in_the_table(learned: Learned, tmp_path: Path) -> None:
    write_learning(with_accuracy(learned, w_max=[0.05, 0.2, 0.4]), tmp_path)
    with open(tmp_path / "targets.csv", newline="") as file:
        rows = {(row["scheduler"], row["target"]): row for row in csv.DictReader(file)}
    assert list(rows) == [(name, target) for name in NAMES for target in ("0.1", "0.3", "0.9")]
    row = rows["bench", "0.1"]
    needed = learned.curves["bench"].rounds_to(0.1)
    assert float(row["rounds_of_those_that_did"]) == pytest.approx(needed.mean(), rel=1e-5)
    assert (row["instances"], row["never"]) == ("3", "0")
    shares = [float(rows["w-max", target]["share_reached_at_the_end"]) for target in ("0.1", "0.3")]
    assert shares == pytest.approx([2 / 3, 1 / 3])
    never = rows[
        "bench", "0.9"
    ]  # nobody beats it: all count as the last round, and nothing is known of others
    assert (never["never"], never["rounds_never_counted_as_last"]) == ("3", "12")
    assert (never["rounds_of_those_that_did"], never["low"], never["high"]) == ("", "", "")


class Stop:
    """Stands for Ctrl-C after some rounds."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, event: Event) -> None:
        self.left -= event["event"] == "progress" and event["rounds"] > 0
        if self.left == 0:
            raise KeyboardInterrupt


def test_stopped_half_way_it_goes_on(learned: Learned, tmp_path: Path) -> None:
    names = ("bench", "alsa-pi", "w-max")
    with pytest.raises(KeyboardInterrupt):
        run(*names, folder=tmp_path, watch=Stop(7))
    kept = [path.name for path in (tmp_path / "checkpoints").iterdir()]
    assert kept == ["0000_bench+2_0-2.npz"]
    missing = r"is not finished \(1 of 1 units are missing\): run `fedwave resume"
    with pytest.raises(fw.FedwaveError, match=missing):
        stored_results(tmp_path)
    told: list[Event] = []
    again = run(*names, folder=tmp_path, watch=told.append)
    played = [event["rounds"] for event in told if event["event"] == "progress"]
    # Three schedulers and three instances; the seventh round was not kept, and is played again.
    assert played == [9 * t for t in range(6, 13)]
    assert list((tmp_path / "checkpoints").iterdir()) == []
    whole = run(*names)
    for label in names:
        assert again.outcomes[label].same_as(whole.outcomes[label])
        for what in ("loss", "accuracy", "class_accuracy"):
            # With others beside them the lanes differ, so the last digits may.
            found, wanted = (getattr(x.curves[label], what) for x in (whole, learned))
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_the_checkpoint_of_another_experiment_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run("w-max", folder=tmp_path, watch=Stop(2))
    sentence = r'holds another experiment: its schedulers is \["w-max"\], not \["alsa-pi"\]; choose'
    with pytest.raises(fw.FedwaveError, match=sentence):
        run("alsa-pi", folder=tmp_path)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["0000_w-max_0-2.npz"]


def test_no_checkpoint_within_the_first_minute(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run("w-max", folder=tmp_path, watch=Stop(3), checkpoint_seconds=Experiment().checkpoint_seconds)  # fmt: skip
    assert not (tmp_path / "checkpoints").exists()


def test_only_schedulers_that_look_at_the_models(learned: Learned) -> None:
    alone = run("update-aware")
    np.testing.assert_array_equal(
        alone.curves["update-aware"].loss, learned.curves["update-aware"].loss
    )
    assert alone.base == "update-aware"


def test_divergence_is_kept_and_told(tmp_path: Path) -> None:
    """A learning rate far too large: numbers that are not there are stored as such, and counted."""
    wild = replace(ASKED.task, eta=1e200)
    made = run("bench", "update-aware", folder=tmp_path, task=wild, rounds=4, targets=())
    stored = Learned.of(stored_results(tmp_path).only)
    rows, paths = write_learning(stored, tmp_path / "drawn")
    assert [row.diverged for row in rows] == [3, 3]
    assert {path.name for path in paths} == FILES
    for label in ("bench", "update-aware"):
        assert stored.outcomes[label].same_as(made.outcomes[label])
        assert np.isnan(stored.curves[label].accuracy[-1]).all()
    summary = json.loads((tmp_path / "drawn" / "summary.json").read_text())
    assert summary["schedulers"]["bench"]["accuracy"]["mean"] is None  # NaN is no JSON
    assert ",4,,,\n" in (tmp_path / "drawn" / "curves.csv").read_text()


def test_where_nothing_was_learnt_there_is_no_table() -> None:
    with pytest.raises(
        fw.FedwaveError, match="nothing was learnt in this experiment: it has no task"
    ):
        run("w-max", task=None)


def test_a_stand_in_is_called_one(learned: Learned, tmp_path: Path) -> None:
    task = replace(ASKED.task, instead_of="mnist")
    stand_in = run("w-max", task=task, rounds=2, instances=1)
    assert stand_in.synthetic
    assert stand_in.caption.startswith("SYNTHETIC DATA, not mnist")
    assert not learned.synthetic  # it was asked for
    assert "SYNTHETIC" not in learned.caption
    for draw in (curves_figure, single_figure, targets_figure):
        assert "SYNTHETIC DATA" in draw(stand_in).get_supxlabel()
        assert "SYNTHETIC" not in draw(learned).get_supxlabel()
        assert "accuracy on 100 test images" in draw(learned).get_supxlabel()
    write_learning(stand_in, tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text())["synthetic"] is True
