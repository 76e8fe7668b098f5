"""`fedwave reproduce --from` a folder of published results: all their figures again, and section V on one page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedwave.cli import output
from fedwave.cli.progress import steps
from fedwave.cli.terminal import print_error
from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.report.published import Published, published_in, read_published
from fedwave.experiments.store.checksums import SUMS, write_sums
from fedwave.experiments.store.folder import check_is_folder, is_published
from fedwave.experiments.store.lock import writing_outputs
from fedwave.experiments.store.manifest import CONFIG
from fedwave.experiments.store.output_names import with_endings
from fedwave.files.reading import is_there

if TYPE_CHECKING:
    from fedwave.experiments.report.figures.common import Figure

_PAGE = ("section-v.png", "section-v.pdf")


def draw_published(
    stored: Path, out: Path | None, json: bool, check: Callable[[Experiment, Path], None] = lambda how, folder: None
) -> None:
    """Draw what a folder holds: one published result, or a folder of its own for each of several.

    ``check`` may refuse a result, before anything is written.
    """
    check_is_folder(stored)
    alone = is_published(stored)
    folders = [stored] if alone else [one for one in published_in(stored) if _can_be_drawn(one)]
    if not folders:
        raise FedwaveError(
            f"{stored} holds no published results; of a run folder say what it is: "
            f"`fedwave reproduce mnist --from {stored}`."
        )
    found = [read_published(folder) for folder in folders]  # all, before anything is written
    for folder, one in zip(folders, found, strict=True):
        check(one.experiment, folder)
    place = Path("out", "published") if out is None else out
    paths: list[Path] = []
    from fedwave.experiments.report.figures.section import on_page

    kinds = {} if alone else on_page(found)
    with steps() as message:
        for one in found:
            message(one.name)
            paths += _draw(one.figures(), place if alone else place / one.name)
        if kinds:
            message("section V")
            paths += _draw_page(found, place)
    for kind, several in kinds.items():
        if len(several) > 1:
            others = ", ".join(one.name for one in several[1:])
            print_error(f"{_PAGE[0]} shows {several[0].name}, not {others}: one result of {kind} fits.")
    if json:
        about = {
            one.name: {"title": one.title, "fedwave": one.fedwave, "schedulers": list(one.experiment.labels)}
            for one in found
        }
        output.print_json({"files": [str(path) for path in paths], "results": about})
        return
    rows = [[one.name, one.title, one.fedwave] for one in found]
    heads = f"Published results in {stored}"
    table = output.plain_rows(["result", "what was run", "fedwave"], rows, heads)
    output.print_table(table, place, paths)


def _can_be_drawn(folder: Path) -> bool:
    """One of several that was not published with its configuration is left out, and named."""
    if is_there(folder / CONFIG):
        return True
    print_error(f"{folder} is left out: it has no {CONFIG}; `fedwave publish` writes one from the folder of a run.")
    return False


def _draw(figures: dict[str, Figure], place: Path) -> list[Path]:
    from fedwave.experiments.report.figures.common import save_figure

    with writing_outputs(place, with_endings(figures) | {SUMS}):
        paths = [path for stem, one in figures.items() for path in save_figure(one, place / stem)]
        write_sums(place, [path.name for path in paths])
    return paths


def _draw_page(found: Sequence[Published], place: Path) -> list[Path]:
    from fedwave.experiments.report.figures.common import write_figure
    from fedwave.experiments.report.figures.section import section_figure

    page = section_figure(found)
    with writing_outputs(place, {*_PAGE, SUMS}):
        paths = [write_figure(page, place / name) for name in _PAGE]
        write_sums(place, _PAGE)
    return paths
