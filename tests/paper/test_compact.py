"""Compact exports: figures drawn from a few small files are those of the run, and changed files are refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import fedwave as fw
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.load import results_of
from fedwave.paper.compact import compact_in, export_compact, read_compact

SIZE = {"rounds": 12, "instances": 3, "first_instance": 4, "seed": 2}
TASK = {"dataset": "synthetic:train=400,test=100", "model": "logistic"}
RUNS: dict[str, dict[str, Any]] = {
    "score": {"schedulers": ["bench", "alsa-pi", "balsa", "balsa-po", "round-robin", "w-max", "age"]},
    "mnist": {"schedulers": ["bench", "alsa-pi", "w-max"], "task": TASK, "targets": [0.3, 0.5]},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, and their compact exports."""
    folder = tmp_path_factory.mktemp("compact")
    for name, how in RUNS.items():
        fw.run({"name": name, **SIZE, **how}, folder / "runs" / name, workers=1)
        export_compact(folder / "runs" / name, folder / "exports" / name)
    return folder


@pytest.fixture
def copy(place: Path, tmp_path: Path) -> Path:
    return shutil.copytree(place / "exports", tmp_path / "copy")


def drawn(run: Path) -> dict[str, Any]:
    """The figures of the run itself."""
    point = results_of(RunFolder(run)).only
    if point.experiment.task is None:
        return fw.figures.score_figures(fw.figures.Scores.of(point.data, point.experiment.base))
    return fw.figures.learning_figures(fw.figures.Learning.of(point))


def shown(figure: Any) -> list[Any]:
    """All that a figure shows, but for pixels: texts, then numbers."""
    texts = [figure.get_supxlabel(), *(t.get_text() for x in figure.legends for t in x.get_texts())]
    texts += [x.get_title().get_text() for x in figure.legends]
    numbers = []
    for axis in figure.axes:
        texts += [axis.get_title(loc="left"), axis.get_xlabel(), axis.get_ylabel()]
        texts += [text.get_text() for text in axis.texts]
        texts += [str(line.get_label()) for line in axis.get_lines()]
        numbers += [np.array(line.get_xydata(), dtype=float) for line in axis.get_lines()]
        numbers += [path.vertices for band in axis.collections for path in band.get_paths()]
        numbers += [np.array(axis.get_xlim()), np.array(axis.get_ylim())]
    return [texts, numbers]


@pytest.mark.parametrize("where", ["exports", "runs"])
@pytest.mark.parametrize("name", RUNS)
def test_figures_show_what_those_of_the_run_show(place: Path, name: str, where: str) -> None:
    of_run = drawn(place / "runs" / name)
    again = read_compact(place / where / name).figures()
    assert list(again) == list(of_run)
    assert len(again) == {"score": 2, "mnist": 3}[name]
    for stem, figure in of_run.items():
        (texts, numbers), (texts_again, numbers_again) = shown(figure), shown(again[stem])
        assert texts_again == texts
        assert len(numbers_again) == len(numbers) > 8
        for one, other in zip(numbers, numbers_again, strict=True):
            # Six digits of a score, an accuracy or a loss.
            np.testing.assert_allclose(other, one, atol={"score": 1e-3, "mnist": 1e-5}[name])


def test_an_export_is_small_and_whole(place: Path) -> None:
    names = {"config.yaml", "done.jsonl", "summary.json", "SHA256SUMS"}
    more = {
        "score": {"rounds.csv", "instances.csv", "score.png", "score-paper.png"},
        "mnist": {"curves.csv", "targets.csv", "learning-curves.png", "one-instance.png", "targets.png"},
    }
    for name in RUNS:
        files = {path.name: path.read_bytes() for path in (place / "exports" / name).iterdir()}
        assert files.keys() == names | more[name]
        sums = dict(line.split()[::-1] for line in files.pop("SHA256SUMS").decode().splitlines())
        assert sums == {file: sha256(content).hexdigest() for file, content in files.items()}
        for file, content in files.items():
            assert (place / "runs" / name / file).read_bytes() == content
    assert [path.name for path in compact_in(place / "exports")] == ["score", "mnist"]
    found = read_compact(place / "exports" / "mnist")
    assert (found.kind, found.schedulers) == ("synthetic", ("bench", "alsa-pi", "w-max"))


def test_a_filled_folder_and_a_sweep_are_refused(place: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with refused(tmp_path):
        export_compact(place / "runs" / "score", tmp_path)
    swept = tmp_path / "swept"
    fw.run({"schedulers": ["age"], "rounds": 2, "instances": 1, "sweep": {"seed": [1, 2]}}, swept)
    with refused("swept", "summary.csv"):
        export_compact(swept, tmp_path / "new")
    with refused("swept", "summary.csv"):
        read_compact(swept)


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


# With checksums that fit, as another version of fedwave could have written them: refused for the content.
BAD: dict[str, tuple[str, Callable[[Path], object]]] = {
    "no column": ("mnist/curves.csv", lambda path: replaced(path, ",loss", ",no_loss")),
    "no band": ("score/rounds.csv", lambda path: replaced(path, ",recent_mean", ",of_late")),
    "no number": ("mnist/curves.csv", lambda path: replaced(path, "bench,4,2,", "bench,4,2,x")),
    "a line less": ("mnist/curves.csv", lambda path: path.write_text(path.read_text().rstrip().rpartition("\n")[0])),
    "no JSON": ("mnist/summary.json", lambda path: path.write_text("{")),
    "nested too deeply": ("mnist/summary.json", lambda path: path.write_text("[" * 100_000)),
    "a fact less": ("score/summary.json", lambda path: replaced(path, "made_with", "made_by")),
    "no text": ("score/rounds.csv", lambda path: path.write_bytes(b"\xff")),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_content_is_refused_in_a_sentence(copy: Path, case: str) -> None:
    file, spoil = BAD[case]
    path = copy / file
    spoil(path)
    sums = path.with_name("SHA256SUMS")
    lines = [line for line in sums.read_text().splitlines() if not line.endswith(path.name)]
    sums.write_text("\n".join([*lines, f"{sha256(path.read_bytes()).hexdigest()}  {path.name}"]))
    with refused(path.parent):
        read_compact(path.parent)


@pytest.mark.parametrize("file", ["mnist/curves.csv", "mnist/summary.json", "score/rounds.csv", "score/summary.json"])
def test_a_changed_or_missing_file_is_refused(copy: Path, file: str) -> None:
    path = copy / file
    replaced(path, "1", "2")
    with refused(path.parent):
        read_compact(path.parent)
    path.unlink()
    with refused(path.parent):
        read_compact(path.parent)
