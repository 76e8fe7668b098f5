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
from torch import nn

import fedwave as fw
from fedwave.experiments import training
from fedwave.experiments.learning import (
    Learned,
    Preset,
    learning_table,
    run_learning,
    write_learning,
)
from fedwave.experiments.learning_figures import curves_figure, single_figure, targets_figure
from fedwave.learning.data import synthetic
from fedwave.learning.evaluation import EvaluationSizes

PRESET = Preset("synthetic", 12, 3, 100, 5, 1e-6, (0.1, 0.3, 0.9))
SETTINGS = {"precision": "float64"}
NAMES = ("bench", "update-aware", "alsa-pi", "w-max")
SEED = 4
FILES = {f"figure{n}.{kind}" for n in (3, 4, 5) for kind in ("png", "svg")}
FILES |= {"curves.csv", "summary.json"}


def small() -> fw.Task:
    def linear() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))

    return fw.Task(synthetic(300, 150), linear, shard_size=4, batch=4, epochs=1, eta=0.02)


def network() -> fw.Network:
    return fw.random_network(5, 2, seed=1, rate=1.0)


def run(folder: Path, *names: str, preset: Preset = PRESET, meter: Any = None) -> Learned:
    chosen = {name: fw.scheduler(name) for name in names or NAMES}
    return run_learning(preset, network(), chosen, small(), SEED, SETTINGS, folder, meter)


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
    out = run(folder)
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
    for label, trace in learned.traces.items():
        sizes = EvaluationSizes(2000, 100, 5)
        alone = fw.train(trace, small(), sizes=sizes, tolerance=1e-6, **SETTINGS)
        np.testing.assert_allclose(learned.curves[label].loss, alone.loss, rtol=1e-4)
        if label != "update-aware":
            assert trace.same_as(fw.simulate(network(), label, 12, 3, SEED))
    # Rounds 5, 10 and the last are judged on all 150 images too.
    full = learned.curves["bench"].full_accuracy
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
        on_all = curves.full_accuracy[at] if curves.full_accuracy is not None else np.nan
        assert float(row["accuracy_on_all"] or "nan") == pytest.approx(
            on_all, rel=1e-5, nan_ok=True
        )
    assert len({(row["scheduler"], row["instance"], row["round"]) for row in rows}) == len(rows)


def test_summary_is_json(folder: Path, learned: Learned) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["seed"], summary["synthetic"], summary["preset"]["rounds"]) == (SEED, False, 12)
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
    trace = learned.traces["w-max"]
    assert rows["w-max"].backlog == pytest.approx(trace.backlog.mean())
    assert rows["w-max"].loss.mean == pytest.approx(learned.curves["w-max"].loss[-1].mean())
    brought = trace.final.learned.sum(axis=1) / trace.arrivals.sum(axis=(0, 2))
    assert rows["w-max"].delivered == pytest.approx(brought.mean())
    assert (rows["bench"].delivered, rows["bench"].jain, rows["bench"].backlog) == (1, 1, 0)


def test_differences_are_from_the_first_where_alsa_pi_was_not_run(learned: Learned) -> None:
    some = replace(learned, curves={k: learned.curves[k] for k in ("w-max", "bench")})
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


class Stop:
    """Stands for Ctrl-C after some rounds."""

    def __init__(self, after: int) -> None:
        self.left, self.played = after, 0

    def __call__(self, rounds: int) -> None:
        self.played += rounds
        self.left -= rounds > 0
        if self.left == 0:
            raise KeyboardInterrupt


def test_stopped_half_way_it_goes_on(
    learned: Learned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "_CHECKPOINT_SECONDS", 0)
    names = ("bench", "alsa-pi", "w-max")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, *names, meter=Stop(7))
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-0-2.npz"]
    told: list[int] = []
    again = run(tmp_path, *names, meter=told.append)
    assert told == [6, *[1] * 6]  # the seventh was not kept, and is played again
    assert list(tmp_path.iterdir()) == []
    whole = run(tmp_path / "other", *names)
    for label in names:
        for what in ("loss", "accuracy", "class_accuracy"):
            found, wanted = (getattr(x.curves[label], what) for x in (again, whole))
            np.testing.assert_array_equal(found, wanted)
            # With others beside them the lanes differ, so the last digits may.
            np.testing.assert_allclose(wanted, getattr(learned.curves[label], what), rtol=1e-6)


def test_a_checkpoint_of_something_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "_CHECKPOINT_SECONDS", 0)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "w-max", meter=Stop(2))
    with pytest.raises(fw.FedwaveError, match="belongs to other runs"):
        run(tmp_path, "alsa-pi")
    assert (tmp_path / "checkpoint-0-2.npz").exists()


def test_no_checkpoint_within_the_first_minute(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "w-max", meter=Stop(3))
    assert list(tmp_path.iterdir()) == []


def test_only_schedulers_that_look_at_the_models(learned: Learned, tmp_path: Path) -> None:
    alone = run(tmp_path, "update-aware")
    np.testing.assert_array_equal(
        alone.curves["update-aware"].loss, learned.curves["update-aware"].loss
    )
    assert alone.base == "update-aware"


def test_a_stand_in_is_called_one(learned: Learned, tmp_path: Path) -> None:
    short = replace(PRESET, dataset="mnist", rounds=2, instances=1)
    stand_in = run(tmp_path, "w-max", preset=short)
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
