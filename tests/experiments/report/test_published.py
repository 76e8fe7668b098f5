"""Published results: the figures drawn from a few small files are those of the run, and bad files are refused."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import mentions, refused

import fedwave as fw
from fedwave.experiments.report.figures.section import on_page, section_figure
from fedwave.experiments.report.learning import learning_figures
from fedwave.experiments.report.published import Published, publish, published_in, read_published
from fedwave.experiments.report.score import score_figures, scores_of
from fedwave.experiments.store.checksums import write_sums
from fedwave.experiments.store.dataset import Results
from fedwave.experiments.store.load import stored_results

SIZE = {"rounds": 12, "instances": 3, "first_instance": 4, "seed": 2}
TASK = {"dataset": "synthetic:train=400,test=100", "model": "logistic", "instead_of": "mnist"}
RUNS: dict[str, dict[str, Any]] = {
    "score": {"schedulers": ["bench", "alsa-pi", "balsa", "balsa-po", "round-robin", "w-max", "age"]},
    "mnist": {"schedulers": ["bench", "alsa-pi", "w-max"], "task": TASK, "targets": [0.3, 0.5]},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, and what is published of them."""
    folder = tmp_path_factory.mktemp("published")
    for name, how in RUNS.items():
        fw.run({"name": name, **SIZE, **how}, folder / "runs" / name, workers=1)
        run = folder / "runs" / name
        publish(stored_results(run), run, folder / "published" / name)
    return folder


@pytest.fixture
def copy(place: Path, tmp_path: Path) -> Path:
    return shutil.copytree(place / "published", tmp_path / "copy")


def drawn(results: Results) -> dict[str, Any]:
    """The figures of the run itself."""
    point = results.only
    if point.experiment.task is None:
        return score_figures(scores_of(point.data, point.experiment.base))
    return learning_figures(point)


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


@pytest.mark.parametrize("name", RUNS)
def test_figures_show_what_those_of_the_run_show(place: Path, name: str) -> None:
    of_run = drawn(stored_results(place / "runs" / name))
    again = read_published(place / "published" / name).figures()
    assert list(again) == list(of_run)
    assert len(again) == {"score": 2, "mnist": 3}[name]
    for stem, figure in of_run.items():
        (texts, numbers), (texts_again, numbers_again) = shown(figure), shown(again[stem])
        assert texts_again == texts
        assert len(numbers_again) == len(numbers) > 8
        for one, other in zip(numbers, numbers_again, strict=True):
            # Six digits of a score, an accuracy or a loss.
            np.testing.assert_allclose(other, one, atol={"score": 1e-3, "mnist": 1e-5}[name])


def test_what_is_published_is_small_and_whole(place: Path) -> None:
    names = {"config.yaml", "provenance.json", "summary.json", "SHA256SUMS"}
    tables = {"score": {"rounds.csv", "instances.csv"}, "mnist": {"curves.csv", "targets.csv"}}
    figures = {
        "score": {"score.png", "score-paper.png"},
        "mnist": {"learning-curves.png", "one-instance.png", "targets.png"},
    }
    for name in RUNS:
        folder = place / "published" / name
        assert {path.name for path in folder.iterdir()} == names | tables[name] | figures[name]
        for same in ("config.yaml", "summary.json"):
            assert (folder / same).read_bytes() == (place / "runs" / name / same).read_bytes()
    assert [path.name for path in published_in(place / "published")] == ["score", "mnist"]
    assert published_in(place / "runs") == []  # whole run folders are no published results


def test_a_filled_folder_and_a_sweep_are_refused(place: Path, tmp_path: Path) -> None:
    run = place / "runs" / "score"
    (tmp_path / "notes").write_text("mine")
    with refused("notes"):
        publish(stored_results(run), run, tmp_path)
    swept = tmp_path / "swept"
    fw.run({"schedulers": ["age"], "rounds": 2, "instances": 1, "sweep": {"seed": [1, 2]}}, swept)
    with refused("swept", "summary.csv"):
        publish(stored_results(swept), swept, tmp_path / "new")


def test_the_page_shows_every_figure_of_section_v(place: Path) -> None:
    found = [read_published(path) for path in published_in(place / "published")]
    figure = section_figure(found)
    figure.draw_without_rendering()
    assert tuple(figure.get_size_inches()) == (8.27, 11.69)
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    for number in (2, 3, 4, 5):
        assert any(title.startswith(f"Fig. {number}") for title in titles)
    assert len(titles) == 14
    words = [t for t in figure.findobj(lambda x: hasattr(x, "get_fontsize")) if t.get_text()]
    assert min(text.get_fontsize() for text in words) >= 7
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["Bench", "ALSA-PI", "BALSA", "BALSA-PO", "RR", "W-max"]
    for axis in figure.axes:  # told apart without colour too
        looks = [(x.get_marker(), str(x.get_linestyle())) for x in axis.get_lines() if x.get_marker() != "None"]
        assert len(set(looks)) == len(looks)


def test_the_page_says_once_what_all_bands_are() -> None:
    results = Path(__file__).parents[3] / "docs" / "results"
    figure = section_figure([read_published(results / name) for name in ("score", "mnist")])
    assert figure.get_supxlabel().count("Bands: ") == 1


def changed(path: Path, change: Callable[[str], str]) -> None:
    before = path.read_text()
    path.write_text(change(before))
    assert path.read_text() != before


def replaced(path: Path, old: str, new: str) -> None:
    changed(path, lambda text: text.replace(old, new, 1))


def without_column(path: Path, name: str) -> None:
    replaced(path, f",{name}", f",no_{name}")


def without_last_line(path: Path) -> None:
    path.write_text(path.read_text().rstrip("\n").rpartition("\n")[0] + "\n")


def with_summary(folder: Path, **changes: object) -> None:
    path = folder / "summary.json"
    content = json.loads(path.read_text())
    content["made_with"] |= changes
    path.write_text(json.dumps(content))


def emptied(text: str) -> str:
    """The first number of the first line left out."""
    heading, first, *others = text.splitlines()
    label, round_, _, *numbers = first.split(",")
    return "\n".join([heading, ",".join([label, round_, "", *numbers]), *others]) + "\n"


BAD: dict[str, tuple[str, Callable[[Path], object], tuple[object, ...]]] = {
    "no config": ("mnist", lambda f: (f / "config.yaml").unlink(), ("config.yaml", "`fedwave publish`")),
    "no provenance": ("mnist", lambda f: (f / "provenance.json").unlink(), ("provenance.json",)),
    "no summary": ("score", lambda f: (f / "summary.json").unlink(), ("summary.json",)),
    "no curves": ("mnist", lambda f: (f / "curves.csv").unlink(), ("curves.csv",)),
    "no instances": ("score", lambda f: (f / "instances.csv").unlink(), ("instances.csv",)),
    "other config": (
        "mnist",
        lambda f: replaced(f / "config.yaml", "rounds: 12", "rounds: 11"),
        ("config.yaml", "provenance.json"),
    ),
    "edited provenance": (
        "mnist",
        lambda f: replaced(f / "provenance.json", "config_sha256", "config_sum"),
        ("provenance.json", "damaged"),
    ),
    "no column": ("mnist", lambda f: without_column(f / "curves.csv", "loss"), ("curves.csv", "column", "loss")),
    "older rounds": (
        "score",
        lambda f: without_column(f / "rounds.csv", "recent_mean"),
        ("rounds.csv", "column", "recent_mean"),
    ),
    "no number": (
        "mnist",
        lambda f: replaced(f / "curves.csv", "bench,4,2,", "bench,4,2,x"),
        ("curves.csv", "line 2", "loss"),
    ),
    "infinite": (
        "mnist",
        lambda f: changed(f / "curves.csv", lambda t: re.sub(r"bench,4,2,[^,]*", "bench,4,2,1e999", t)),
        ("line 2", "loss", "infinite"),
    ),
    "share": (
        "mnist",
        lambda f: changed(f / "curves.csv", lambda text: text.replace(",0.", ",1.")),
        ("accuracy", 0, 1),
    ),
    "a line less": (
        "mnist",
        lambda f: without_last_line(f / "curves.csv"),
        ("3 schedulers", "3 instances", "12 rounds", "config.yaml"),
    ),
    "another scheduler": (
        "score",
        lambda f: replaced(f / "rounds.csv", "bench,1,", "beach,1,"),
        ("7 schedulers", "12 rounds"),
    ),
    "another instance": (
        "mnist",
        lambda f: replaced(f / "curves.csv", "bench,4,1,", "bench,5,1,"),
        ("lines", "3 instances"),
    ),
    "no json": ("mnist", lambda f: (f / "summary.json").write_text("{"), ("summary.json", "JSON")),
    "a list": ("mnist", lambda f: (f / "summary.json").write_text("[]"), ("summary.json", "summary")),
    "made with": ("mnist", lambda f: with_summary(f, slots=[1]), ("made_with.slots", "[1]")),
    "draws": ("score", lambda f: with_summary(f, own_draws="[1]"), ("own_draws", "list")),
    "devices": ("score", lambda f: with_summary(f, devices=0), ("made_with.devices", 0)),
    "an empty mean": ("score", lambda f: changed(f / "rounds.csv", emptied), ("score_mean", "bench")),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_in_a_sentence(copy: Path, case: str) -> None:
    name, spoil, tokens = BAD[case]
    read_published(copy / name)
    spoil(copy / name)
    with_new_sums(copy / name)
    with refused(*tokens) as caught:
        read_published(copy / name)
    assert "\n" not in str(caught.value)


def with_new_sums(folder: Path) -> None:
    """As a forger would: what is refused then is refused for what it says."""
    (folder / "SHA256SUMS").unlink()
    write_sums(folder, [path.name for path in folder.iterdir()])


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("mnist", "curves.csv"),
        ("mnist", "targets.csv"),
        ("mnist", "summary.json"),
        ("score", "rounds.csv"),
        ("score", "instances.csv"),
    ],
)
def test_an_edited_table_is_refused(copy: Path, name: str, file: str) -> None:
    changed(copy / name / file, lambda text: text.replace("1", "2", 1))
    with refused(file, "SHA256SUMS"):
        read_published(copy / name)


def test_of_two_results_the_page_shows_the_first(copy: Path) -> None:
    first = read_published(copy / "mnist")
    assert first.point is not None
    halved = first.point.data.assign(accuracy=first.point.data["accuracy"] / 2)
    other = replace(first, name="other", point=replace(first.point, data=halved))

    def lines(found: list[Published]) -> list[list[float]]:
        return [list(x.get_ydata()) for axis in section_figure(found).axes for x in axis.get_lines()]

    assert lines([first, other]) == lines([first]) != lines([other])
    assert on_page([first, other]) == {"mnist": [first, other]}
    assert on_page([replace(first, point=None)]) == {}


def test_an_older_summary_leaves_facts_out_of_the_title(copy: Path) -> None:
    path = copy / "mnist" / "summary.json"
    content = json.loads(path.read_text())
    del content["made_with"]
    path.write_text(json.dumps(content))
    with_new_sums(copy / "mnist")
    assert mentions(read_published(copy / "mnist").title, "12 rounds", "3 instances", "4 to 6")


RESULTS = Path(__file__).parents[3] / "docs" / "results"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/config.yaml")), ids=lambda p: p.parent.name)
def test_the_committed_results_can_be_read(path: Path) -> None:
    assert read_published(path.parent).experiment.labels
