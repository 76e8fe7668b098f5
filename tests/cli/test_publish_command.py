"""`fedwave publish`, and `fedwave reproduce --from` what it wrote."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from refusals import mentions

import fedwave as fw
from fedwave.experiments.report.published import publish
from fedwave.experiments.run.runner import stored_results

TASK = {"dataset": "synthetic:train=400,test=100", "model": "logistic"}
SIZE = {"schedulers": ["bench", "alsa-pi", "w-max"], "rounds": 4, "instances": 2}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, and a folder with what is published of them."""
    folder = tmp_path_factory.mktemp("place")
    with pytest.MonkeyPatch.context() as patch:  # of the runs themselves no figure is looked at
        patch.setattr("fedwave.experiments.report.figures.common.save_figure", lambda figure, stem: [])
        _make(folder)
    return folder


def _make(folder: Path) -> None:
    for name, more in {"score": {}, "mnist": {"task": TASK, "targets": [0.3]}}.items():
        run = folder / f"run-{name}"
        fw.run({"name": name, **SIZE, **more}, run, workers=1)
        publish(stored_results(run), run, folder / "results" / name)


@pytest.fixture
def results(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(place, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)  # an import would fail
    monkeypatch.setattr("fedwave.experiments.run.pool.run_unit", None)
    return Path("results")


def files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.suffix in (".png", ".svg", ".pdf")
    }


def test_all_published_results_are_drawn_again(fedwave, results: Path) -> None:
    status, text, err = fedwave("reproduce", "--from", results)
    assert (status, err) == (0, "")
    learnt = {f"mnist/{n}.{e}" for n in ("learning-curves", "one-instance", "targets") for e in ("png", "svg")}
    page = {"section-v.png", "section-v.pdf"}
    assert files(Path("out/published")) == learnt | page | {"score/score.png", "score/score.svg"}
    assert mentions(text, "U = 25", "W = 5", "4 rounds", "2 instances", "seed 0")
    assert "section-v.pdf" in text
    status, text, _ = fedwave("reproduce", "--from", results, "--json")  # over its own files
    assert status == 0
    told = json.loads(text)
    assert list(told["results"]) == ["score", "mnist"]
    assert told["results"]["mnist"]["schedulers"] == SIZE["schedulers"]
    assert {Path(path).name for path in told["files"]} >= page


def test_of_several_of_a_kind_a_line_says_which_is_on_the_page(fedwave, results: Path) -> None:
    shutil.copytree(results / "score", results / "score-again")
    status, _, err = fedwave("reproduce", "--from", results)
    told = "fedwave: section-v.png shows score, not score-again: one result of score fits.\n"
    assert (status, err) == (0, told)


def test_one_of_them_and_a_whole_run_folder(fedwave, results: Path) -> None:
    assert fedwave("reproduce", "mnist", "--from", results, "-o", "a")[0] == 0
    assert fedwave("reproduce", "mnist", "--from", results / "mnist", "-o", "b")[0] == 0
    assert fedwave("reproduce", "--from", results / "mnist", "-o", "c")[0] == 0
    assert fedwave("reproduce", "mnist", "--from", "run-mnist", "-o", "d")[0] == 0
    of_run = files(Path("d")) - {"devices.png", "devices.svg"}
    assert files(Path("a")) == files(Path("b")) == files(Path("c")) == of_run
    assert Path("d/results.nc").exists()


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        (("--from", "nowhere"), ("nowhere",)),
        (("--from", "."), (".", "published")),
        (("--from", "run-mnist"), ("run-mnist", "published")),
        (("score", "--from", "empty"), ("empty", "config.yaml")),
        (("cifar10", "--from", "results"), ("results", "cifar10", "score", "mnist")),
        (("mnist", "--from", "results/score"), ("results/score", "mnist")),
        (("mnist", "--from", "run-score"), ("`fedwave reproduce score --from run-score`",)),
        (("mnist", "--from", "run-mnist", "network.slots=3"), ("network.slots=3", "--from")),
        (("--from", "results", "--quick"), ("--quick", "--from")),
        ((), ("score", "mnist", "cifar10", "theory")),
    ],
)
def test_what_cannot_be_drawn_ends_in_a_sentence(
    refuses, results: Path, words: tuple[str, ...], tokens: tuple[str, ...]
) -> None:
    Path("empty").mkdir()
    refuses(("reproduce", *words), *tokens)


def test_one_bad_result_is_named_before_anything_is_drawn(fedwave, results: Path) -> None:
    (results / "mnist" / "curves.csv").unlink()
    status, out, err = fedwave("reproduce", "--from", results)
    assert (status, out) == (2, "")
    assert mentions(err, "results/mnist", "curves.csv")
    assert not Path("out").exists()


def test_a_published_result_is_no_lot(refuses, results: Path) -> None:
    place = results / "score"
    refuses(("merge", place, "run-score", "-o", "x"), place, f"`fedwave reproduce --from {place}`")


def test_a_run_is_published_into_a_new_folder_only(fedwave, results: Path) -> None:
    status, _, err = fedwave("publish", "run-mnist", "--out", results / "mnist")
    assert status == 2
    assert mentions(err, "results/mnist", "empty")
    status, text, _ = fedwave("publish", "run-mnist", "--out", "more", "--json")
    assert status == 0
    assert "more/curves.csv" in json.loads(text)["files"]
    status, text, err = fedwave("publish", "run-score", "--out", "new")
    assert (status, err) == (0, "")
    assert "summary.json" in text


@pytest.mark.parametrize("words", [("resume",), ("report",), ("verify",), ("publish", "-o", "new")])
def test_a_published_result_is_no_run_that_could_go_on(fedwave, results: Path, words: tuple[str, ...]) -> None:
    folder = results / "score"
    before = {path: path.read_bytes() for path in folder.iterdir()}
    status, out, err = fedwave(*words, folder)
    assert (status, out) == (2, "")
    assert mentions(err, "results/score", "`fedwave reproduce --from")
    assert err.count("\n") == 1
    left = {path: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}
    assert left == before
