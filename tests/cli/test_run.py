"""`fedwave run` on presets, files and networks, and parts of a user's own on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import mentions
from user_file import forgotten
from user_file import text as user_text

import fedwave as fw
from fedwave.experiments.config.read import load_experiment
from fedwave.experiments.run import work
from fedwave.learning.datasets.synthetic import synthetic
from fedwave.paper import reproduce_theory as theory
from fedwave.parts import registry

SMALL = ("-r", 6, "-i", 2, "--workers", 1)
TASK = """
name: my task
network: {kind: random, devices: 4, slots: 2}
schedulers: [alsa-pi, age]
task: {dataset: synthetic, model: logistic, epochs: 1}
training: {device: cpu, loss_images: 100, test_images: 60}
rounds: 3
instances: 2
metric: accuracy
"""


@pytest.fixture(autouse=True)
def _in_an_empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with forgotten():
        yield


@pytest.fixture
def _few_images(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(registry.own()["dataset"], "synthetic", lambda: synthetic(200, 100))
    work._task.cache_clear()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
    work._task.cache_clear()


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A file with the scheduler `heavy-test` and the fading `steady-test`."""
    path = tmp_path / "mine.py"
    path.write_text(user_text())
    return path


def test_a_preset_goes_to_a_folder_of_its_name(fedwave) -> None:
    words = ("run", "paper-score", *SMALL, "-s", "alsa-pi,age", "--seed", 3)
    status, text, err = fedwave(*words)
    assert (status, err) == (0, "")
    assert mentions(text, "paper-score", "U = 25", "6 rounds", "2 instances", "seed 3")
    folder = Path("out/paper-score")
    assert mentions(text, folder)
    assert {"score.png", "table.md", "summary.csv", "results.nc", "SHA256SUMS"} <= {
        path.name for path in folder.iterdir()
    }
    trace = fw.simulate(fw.paper_network(), "age", 6, 2, 3)
    assert np.array_equal(fw.load(folder).score.sel(scheduler="age").T, trace.score)
    status, text, err = fedwave(*words, "--json")
    found = json.loads(text)
    assert (status, err) == (0, "")
    assert found["schedulers"]["age"]["score"]["mean"] == pytest.approx(trace.score.mean())
    assert {str(folder / "summary.json"), str(folder / "score.svg")} <= set(found["files"])


@pytest.mark.usefixtures("_few_images")
def test_a_file_with_a_task_is_trained(fedwave, request: pytest.FixtureRequest) -> None:
    Path("mine.yaml").write_text(TASK)
    status, text, err = fedwave("run", "mine.yaml", "--workers", 1)
    assert (status, err) == (0, "")
    assert mentions(text, "synthetic", "U = 4", "W = 2", "3 rounds", "2 instances", "seed 0")
    assert text.splitlines()[1].split()[:3] == ["scheduler", "accuracy", "loss"]
    folder = Path("out/my-task")
    made = {path.name for path in folder.iterdir()}
    assert {"learning-curves.png", "one-instance.svg", "curves.csv", "results.nc"} <= made
    assert fw.load(folder).accuracy.sizes == {"scheduler": 2, "instance": 2, "round": 3}
    # Every command takes the same file; train does the same, compare leaves the task out.
    request.getfixturevalue("no_figures")
    same = json.loads(fedwave("train", "mine.yaml", "--workers", 1, "--json", "-o", "train")[1])
    assert same["schedulers"] == json.loads((folder / "summary.json").read_text())["schedulers"]
    only = json.loads(fedwave("compare", "mine.yaml", "--json")[1])["schedulers"]["age"]
    assert only["backlog"] == same["schedulers"]["age"]["backlog"]
    assert "accuracy" not in only


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_users_scheduler_runs(fedwave, own: Path, command: str) -> None:
    words = (command, "paper", "-s", "heavy-test:weight=2.0,age", *SMALL, "--json")
    status, _, err = fedwave(*words)
    assert status == 2
    assert mentions(err, "heavy-test")
    fading = ("network.fading=steady-test",)
    status, text, err = fedwave(*words, *fading, "--import", "mine.py")
    assert (status, err) == (0, "")
    network = fw.paper_network(fading=registry.build("fading", "steady-test"))
    trace = fw.simulate(network, "heavy-test", 6, 2, 0)
    label = next(iter(json.loads(text)["schedulers"]))
    found = json.loads(text)["schedulers"][label]
    assert label.startswith("heavy-test:weight=2")
    assert found["backlog"]["mean"] == pytest.approx(trace.backlog.mean())
    if command == "run":
        assert load_experiment("out/paper/config.yaml").imports == (str(own),)
        assert json.loads(fedwave("resume", "out/paper", "--json")[1])["schedulers"][label] == found


def test_theory_is_reproduced_from_a_run_of_backlogs(fedwave, monkeypatch) -> None:
    """Its parts are tested with theory; here the run, the words and what is written and printed."""
    asked: list[bool] = []

    def part(quick: bool) -> dict[str, object]:
        asked.append(quick)
        return {"gap.csv": (["gap"], [[0.5]]), "times.json": {"ratio": 2}}

    monkeypatch.setattr(theory, "PARTS", {"a part": part})
    words = ("reproduce", "theory", "rounds=310", "instances=2", "schedulers=[age]", "--workers", 1, "against=age")
    status, text, err = fedwave(*words)
    assert (status, err, asked) == (0, "", [True])
    data = fw.load("out/theory/backlogs")
    assert data.sizes["round"] == 310
    assert mentions(text, "the bound", "100.13", "out/theory", "gap.csv")
    assert Path("out/theory/gap.csv").read_text() == "gap\n0.5\n"
    found = json.loads(fedwave(*words, "--full", "--json")[1])
    assert "out/theory/backlogs.tex" in found["files"]
    backlog = data.backlog.values[..., 300:].mean()
    assert found["backlogs"]["age"]["mean"] == pytest.approx(backlog)
    assert asked[-1] is False
