"""`fedwave train` and `fedwave reproduce mnist|cifar10`, run as a shell would; no data but the synthetic."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import fedwave as fw
from fedwave.cli import output
from fedwave.experiments import figures
from fedwave.experiments.learning import LearningRow
from fedwave.experiments.statistics import Estimate
from fedwave.learning import task as task_module
from fedwave.learning.data import Dataset, NoData, synthetic

NETWORK = ("random", "--devices", 4, "--slots", 2, "--set", "rate=1")
SIZE = ("--task", "synthetic", "--rounds", 3, "--instances", 2, "--device", "cpu")
FILES = {f"figure{n}.{kind}" for n in (3, 4, 5) for kind in ("png", "svg")}
FILES |= {"curves.csv", "summary.json"}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Few images, one epoch, one thread; the published data cannot be had."""

    def load(name: str) -> Dataset:
        if name == "synthetic":
            return synthetic(200, 100)
        raise NoData(f"{name} could not be fetched: there is no network here.")

    monkeypatch.setattr(task_module, "load_dataset", load)
    for preset in task_module.PRESETS.values():
        monkeypatch.setitem(preset, "epochs", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_train_prints_a_table_and_writes_figures(fedwave, tmp_path: Path) -> None:
    out = tmp_path / "new"
    status, text, err = fedwave(
        "train", *NETWORK, *SIZE, "-s", "alsa-pi,update-aware,w-max", "--seed", 3, "-o", out
    )
    assert (status, err) == (0, "")
    assert "synthetic: 3 rounds, 2 instances, seed 3" in text
    assert "SYNTHETIC" not in text  # it was asked for
    for word in ("vs alsa-pi", "loss", "spikes", "backlog", "delivered", "Jain", "figure5.svg"):
        assert word in text
    lines = [line.split() for line in text.splitlines()]
    first = [line[0] for line in lines if line]
    assert [word for word in first if word in ("alsa-pi", "update-aware", "w-max")] == [
        "alsa-pi",
        "update-aware",
        "w-max",
    ]
    assert {path.name for path in out.iterdir()} == FILES
    with open(out / "curves.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    last = [float(r["accuracy"]) for r in rows if (r["scheduler"], r["round"]) == ("w-max", "3")]
    summary = json.loads((out / "summary.json").read_text())
    assert summary["schedulers"]["w-max"]["accuracy"]["mean"] == pytest.approx(np.mean(last))
    loss = next(line[3] for line in lines if line and line[0] == "w-max")
    assert float(loss) == pytest.approx(summary["schedulers"]["w-max"]["loss"]["mean"], abs=6e-4)


def test_train_json_is_only_json(fedwave, tmp_path: Path) -> None:
    words = ("train", *NETWORK, *SIZE, "-s", "w-max,age", "--json", "-o", tmp_path)
    status, text, err = fedwave(*words)
    content = json.loads(text)
    assert (status, err) == (0, "")
    assert {Path(path).name for path in content.pop("files")} == FILES
    assert content == json.loads((tmp_path / "summary.json").read_text())
    assert content["schedulers"]["w-max"]["difference"]["mean"] == 0  # the first: no alsa-pi here
    assert content["training"]["tolerance"] == 1e-6
    trace = fw.simulate(fw.random_network(4, 2, rate=1.0), "age", 3, 2, 0)
    curves = fw.train(trace, fw.task("synthetic"), tolerance=1e-6)
    assert content["schedulers"]["age"]["loss"]["mean"] == pytest.approx(
        curves.loss[-1].mean(), rel=1e-4
    )


def test_every_option_reaches_the_training(fedwave, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(figures, "save_figure", lambda figure, stem: [])  # they take the longest
    words = ("train", *NETWORK, *SIZE, "-s", "w-max,update-aware", "--json", "-o", tmp_path)

    def run(*more: object) -> dict:
        status, text, err = fedwave(*words, *more)
        assert (status, err) == (0, "")
        return json.loads(text)

    plain = run()
    for option, key, value in (
        ("--mode", "mode", "sync"),
        ("--beta", "beta", 0.5),
        ("--tolerance", "tolerance", 0.0),
        ("--precision", "precision", "float64"),
        ("--block", "block", 3),
    ):
        changed = run(option, value)
        assert changed["training"] == plain["training"] | {key: value}
    skewed = run("--skew", 0.05)
    for name in ("w-max", "update-aware"):
        assert skewed["schedulers"][name]["loss"] != plain["schedulers"][name]["loss"]
    assert (
        run("--mode", "sync")["schedulers"]["w-max"]["loss"] != plain["schedulers"]["w-max"]["loss"]
    )


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_without_data_reproduce_falls_back_loudly(fedwave, tmp_path: Path, name: str) -> None:
    words = ("reproduce", name, "--quick", "-t", 2, "-i", 2, "--device", "cpu", "-o", tmp_path)
    status, text, err = fedwave(*words)
    assert status == 0
    assert f"SYNTHETIC DATA is used instead of {name}" in err
    assert f"{name} could not be fetched" in err
    assert f"SYNTHETIC DATA (no {name}): 2 rounds, 2 instances, seed 0" in text
    assert {path.name for path in tmp_path.iterdir()} == FILES
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["synthetic"] is True
    assert list(summary["schedulers"]) == [
        "bench", "alsa-pi", "balsa", "balsa-po", "round-robin", "w-max",
    ]  # fmt: skip
    # Text is drawn as shapes; matplotlib notes what it was beside them.
    assert "SYNTHETIC DATA" in (tmp_path / "figure3.svg").read_text()


def test_without_data_train_does_not_fall_back(fedwave, tmp_path: Path) -> None:
    status, out, err = fedwave("train", "--task", "mnist", "-o", tmp_path)
    assert (status, out) == (2, "")
    assert err == "fedwave: mnist could not be fetched: there is no network here.\n"


def test_who_the_base_is_does_not_depend_on_luck() -> None:
    """An equal accuracy makes nobody the base, and a base that diverged is still named."""
    nan, zero = Estimate(np.nan, np.nan, np.nan), Estimate(0.0, 0.0, 0.0)

    def row(label: str, difference: Estimate, diverged: int = 0) -> LearningRow:
        return LearningRow(label, zero, difference, zero, 0.0, diverged, 0.0, 0.0, 1.0)

    equal = output.learning_table([row("bench", zero), row("alsa-pi", zero)], "alsa-pi", "")
    assert list(equal.columns[2].cells) == ["+0.00±0.00", "-"]
    lost = output.learning_table([row("bench", nan), row("alsa-pi", nan, 2)], "alsa-pi", "")
    assert [table.columns[2].header for table in (equal, lost)] == ["vs alsa-pi"] * 2
    assert list(lost.columns[0].cells) == ["bench", "alsa-pi (2 diverged)"]
    assert list(lost.columns[2].cells)[1] == "-"


TRAIN = ("train", *NETWORK, "-t", 1, "-i", 1, "-s", "w-max", "--out", "out", "--task")
REFUSALS = {
    (*TRAIN, "sinthetic"): "there is no dataset 'sinthetic'; did you mean 'synthetic'?",
    (*TRAIN, "synthetic", "--device", "tpu"): "device is 'tpu', must be auto, cpu, or cuda",
    (*TRAIN, "synthetic", "--device", "cuda"): "device is 'cuda', must be auto, cpu, or cuda",
    (*TRAIN, "synthetic", "--precision", "half"): "precision is 'half', must be 'float32'",
    (*TRAIN, "synthetic", "--mode", "both"): "mode is 'both', must be 'async' or 'sync'",
    (*TRAIN, "synthetic", "--beta", -1): "task beta is -1.0, must be a number >= 0",
    (*TRAIN, "synthetic", "--beta", "nan"): "task beta is nan, must be a number >= 0",
    (*TRAIN, "synthetic", "--skew", 0): "Dirichlet alpha is 0.0, must be a number > 0",
    (*TRAIN, "synthetic", "--tolerance", 2): "tolerance is 2.0, must lie in [0, 1)",
    (*TRAIN, "synthetic", "--block", 0): "block is 0, must be a whole number >= 1",
    (*TRAIN, "synthetic", "--rounds", -1): "rounds is -1, must be a whole number >= 1",
    (*TRAIN, "synthetic", "--seed", -1): "seed is -1, must be a whole number >= 0",
    ("train", *SIZE, "-s", "update-aware", "-t", -1, "-o", "out"): "rounds is -1, must be a whole",
    ("train", *SIZE, "-s", "update-aware", "-i", 0, "-o", "out"): "instances is 0, must be a whole",
    ("train", *SIZE, "-s", "update-awar", "-o", "out"): "did you mean 'update-aware'?",
    ("train", *SIZE, "-s", "update-aware:breadth=0", "-o", "out"): "breadth is 0, must be a whole",
    ("reproduce", "mnist", "--device", "tpu", "-o", "out"): "device is 'tpu', must be auto",
    ("reproduce", "minst"): "No such command 'minst'",
    ("simulate", "-s", "update-aware"): "looks at the models, so it runs only while they are",
}


@pytest.mark.parametrize("words", REFUSALS, ids=lambda words: " ".join(map(str, words)))
def test_one_sentence_and_status_2(
    fedwave, words: tuple[object, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    status, out, err = fedwave(*words)
    assert (status, out) == (2, "")
    assert err.startswith("fedwave: ")
    assert err.count("\n") == 1
    assert REFUSALS[words] in err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_place_that_cannot_be_written_is_found_before_the_run(fedwave, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for words in (
        ("train", *NETWORK, "--task", "synthetic", "--rounds", 10**9, "--out", tmp_path / "file"),
        ("reproduce", "mnist", "--rounds", 10**9, "--out", tmp_path / "file" / "deeper"),
    ):
        status, out, err = fedwave(*words)
        assert (status, out) == (2, "")
        assert "cannot be written to" in err
        assert err.count("\n") == 1
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_the_right_to_write(fedwave, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    status, _, err = fedwave("train", *NETWORK, *SIZE, "--out", tmp_path / "new")
    tmp_path.chmod(0o700)
    assert status == 2
    assert "cannot be written to" in err
