"""`fedwave report --compact`, and `fedwave reproduce --from` what it wrote."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from refusals import mentions

import fedwave as fw
from fedwave.paper.compact import export_compact

TASK = {"dataset": "synthetic:train=400,test=100", "model": "logistic", "instead_of": "mnist"}
SIZE = {"schedulers": ["bench", "alsa-pi", "w-max"], "rounds": 4, "instances": 2}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, and a folder with their compact exports."""
    folder = tmp_path_factory.mktemp("place")
    with pytest.MonkeyPatch.context() as patch:  # of the runs themselves no figure is looked at
        patch.setattr("fedwave.experiments.report.figures.common.save_figure", lambda figure, stem: [])
        for name, more in {"score": {}, "mnist": {"task": TASK, "targets": [0.3]}}.items():
            fw.run({"name": name, **SIZE, **more}, folder / f"run-{name}", workers=1)
            export_compact(folder / f"run-{name}", folder / "results" / name)
    return folder


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


def test_all_exports_are_drawn(fedwave, results: Path) -> None:
    status, text, err = fedwave("reproduce", "--from", results)
    assert (status, err) == (0, "")
    learnt = {f"mnist/{n}.{e}" for n in ("learning-curves", "one-instance", "targets") for e in ("png", "svg")}
    page = {"section-v.png", "section-v.pdf"}
    assert files(Path("out/published")) == learnt | page | {"score/score.png", "score/score.svg"}
    assert mentions(text, "U = 25", "W = 5", "4 rounds", "2 instances", "seed 0")
    assert "section-v.pdf" in text
    shutil.copytree(results / "score", results / "score-again")
    status, text, err = fedwave("reproduce", "--from", results, "--json")  # over its own files
    assert status == 0
    assert mentions(err, "section-v.png", "score-again")  # which is not on it
    told = json.loads(text)
    assert list(told["results"]) == ["score", "mnist", "score-again"]
    assert told["results"]["mnist"]["schedulers"] == SIZE["schedulers"]
    assert {Path(path).name for path in told["files"]} >= page


@pytest.mark.parametrize(
    "words",
    [
        ("mnist", "--from", "results"),
        ("mnist", "--from", "results/mnist"),
        ("--from", "results/mnist"),
        ("mnist", "--from", "run-mnist"),
        ("--from", "run-mnist"),
    ],
    ids=" ".join,
)
def test_one_export_or_run_folder(fedwave, results: Path, words: tuple[str, ...]) -> None:
    assert fedwave("reproduce", *words, "-o", "drawn", "--quiet") == (0, "", "")
    stems = ("learning-curves", "one-instance", "targets")
    assert files(Path("drawn")) == {f"{stem}.{ending}" for stem in stems for ending in ("png", "svg")}


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        (("--from", "nowhere"), ("nowhere",)),
        (("--from", "empty"), ("empty", "compact")),
        (("score", "--from", "empty"), ("empty", "SHA256SUMS")),
        (("cifar10", "--from", "results"), ("results", "SHA256SUMS")),
        (("mnist", "--from", "results/score"), ("results/score", "mnist")),
        (("mnist", "--from", "run-score"), ("`fedwave reproduce score --from run-score`",)),
        (("mnist", "--from", "run-mnist", "instances=7"), ("instances=7", "--from")),
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


def test_one_bad_result_is_named_before_anything_is_drawn(refuses, results: Path) -> None:
    with open(results / "mnist" / "curves.csv", "a") as file:
        file.write("\n")
    refuses(("reproduce", "--from", results), "results/mnist", "curves.csv")
    assert not Path("out").exists()


def test_an_export_is_no_lot(refuses, results: Path) -> None:
    refuses(("merge", results / "score", "run-score", "-o", "x"), results / "score")


@pytest.mark.usefixtures("no_figures")
def test_a_run_is_exported_into_a_new_folder_only(fedwave, refuses, results: Path) -> None:
    status, _, err = fedwave("report", "run-mnist", "--compact", results / "mnist")
    assert status == 2
    assert mentions(err, "results/mnist", "new")
    refuses(("report", "run-score", "--compact", "new", "--out", "figures"), "--compact", "--out")
    status, text, err = fedwave("report", "run-score", "--compact", "new")
    assert (status, err) == (0, "")
    assert "instances.csv" in text
    assert {path.name for path in Path("new").iterdir()} >= {"config.yaml", "summary.json", "rounds.csv", "SHA256SUMS"}


@pytest.mark.parametrize("words", [("resume",), ("report",), ("verify",)])
def test_an_export_is_no_run_that_could_go_on(fedwave, results: Path, words: tuple[str, ...]) -> None:
    folder = results / "score"
    before = {path: path.read_bytes() for path in folder.iterdir()}
    status, out, err = fedwave(*words, folder)
    assert (status, out) == (2, "")
    assert mentions(err, "results/score")
    assert err.count("\n") == 1
    left = {path: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}
    assert left == before
