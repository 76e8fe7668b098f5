"""`fedwave predict`: a ranking without training, and accuracies from a short one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from refusals import mentions
from trained_run import trained_run

import fedwave as fw
from fedwave.experiments.analysis.prediction_check import check_prediction

WORDS = ("predict", "paper", "-s", "round-robin,fresh,alsa-pi", "-r", 30, "-i", 3)


def test_the_table_is_that_of_the_python_call(fedwave, refuses, tmp_path: Path) -> None:
    status, text, err = fedwave(*WORDS, "--json")
    assert (status, err) == (0, "")
    rows = {row["scheduler"]: row for row in json.loads(text)["schedulers"]}
    assert list(rows) == ["fresh", "alsa-pi", "round-robin"]
    for name, row in rows.items():
        trace = fw.simulate(fw.paper_network(), name, 30, 3)
        assert row["useful_mass"] == pytest.approx(fw.predict(trace).mean())
        assert row["accuracy"] is None
    status, text, _ = fedwave(*WORDS, "-o", tmp_path / "out")
    assert status == 0
    assert text.index("fresh") < text.index("alsa-pi") < text.index("round-robin")
    assert (tmp_path / "out/prediction.csv").read_text().splitlines()[1].startswith("fresh,")
    assert fedwave(*WORDS, "-o", tmp_path / "out", "--quiet") == (0, "", "")  # over its own files
    (tmp_path / "out/prediction.csv").write_text("mine")
    refuses((*WORDS, "-o", tmp_path / "out"), tmp_path / "out/prediction.csv")


def test_schedulers_follow_the_rule(fedwave) -> None:
    words = ("predict", "paper", "-s", "mass,fresh", "-r", 30, "-i", 2, "--json")
    rows = json.loads(fedwave(*words, "task.aggregation=constant:beta=0.9")[1])["schedulers"]
    found = {row["scheduler"]: row["useful_mass"] for row in rows}
    mass = fw.simulate(fw.paper_network(), "mass:aggregation=constant:beta=0.9", 30, 2)
    assert found["mass"] == pytest.approx(fw.predict(mass, "constant:beta=0.9").mean())


def test_labels_come_from_the_task(fedwave) -> None:
    words = ("predict", "paper", "-s", "mass-labels,fresh", "-r", 12, "-i", 2, "--json")
    status, text, _ = fedwave(*words, "--task", "synthetic", "task.partition=by-class:held=2")
    assert status == 0
    found = {row["scheduler"]: row["useful_mass"] for row in json.loads(text)["schedulers"]}
    task = fw.task("synthetic", partition="by-class:held=2")
    trace = fw.simulate(fw.paper_network(), "mass-labels", 12, 2, labels=task.labels())
    assert found["mass-labels"] == pytest.approx(fw.predict(trace, task).mean())
    by_hand = fw.predict(trace, labels=fw.partition.Labels("by-class:held=2"))
    assert found["mass-labels"] == pytest.approx(by_hand.mean())
    assert found["mass-labels"] < fw.predict(trace).mean()  # where every device has all classes


def test_a_short_training_gives_accuracies(fedwave, tmp_path: Path) -> None:
    task = ("--task", "synthetic:train=400,test=100", "task.model=logistic")
    status, text, _ = fedwave(*WORDS, "-r", 6, *task, "--train", "fresh", "-o", tmp_path)
    assert status == 0
    assert mentions(" ".join(text.split()), "6 rounds", "fresh")
    accuracy = [row["accuracy"] for row in json.loads((tmp_path / "prediction.json").read_text())["schedulers"]]
    assert np.all(np.diff(accuracy) <= 0)
    assert 0.1 < accuracy[0] <= 1


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        ((*WORDS, "--train", "age"), ("--train", "age")),
        ((*WORDS, "task.aggregation=lea"), ("lea",)),
        ((*WORDS, "sweep.network.slots=[2,3]"), ("network.slots",)),
        ((*WORDS, "-s", "update-aware"), ("update-aware",)),
        (("predict", "--check", "nowhere"), ("nowhere",)),
        # A check takes no other options.
        (("predict", "--check", ".", "paper"), ("paper",)),
        (("predict", "--check", ".", "--rounds", 3), ("rounds",)),
        (("predict", "--check", ".", "--train", "age"), ("train",)),
    ],
)
def test_bad_input_is_one_sentence(refuses, words, tokens) -> None:
    refuses(words, *tokens)


@pytest.mark.slow
def test_a_check_of_a_trained_run_is_printed_and_written(fedwave, tmp_path: Path) -> None:
    folder = trained_run(tmp_path / "run")
    status, text, err = fedwave("predict", "--check", folder, "-o", tmp_path / "check")
    assert (status, err) == (0, "")
    assert mentions(text, "small")
    assert (tmp_path / "check/check.png").stat().st_size > 10_000
    found = check_prediction(folder)
    written = json.loads((tmp_path / "check/check.json").read_text())
    first = written["points"][0]["correlation"]["useful mass"]
    assert first["mean"] == pytest.approx(found.points[0].correlation("useful mass").mean)
    assert written["overall"]["score"]["instances"] == 2
    assert fedwave("verify", folder)[0] == 0  # nothing in it has changed
