"""`fedwave publish`: the small files of a finished run that its figures can be drawn from again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.experiments.run.runner import stored_results
from fedwave.experiments.store.folder import check_is_folder
from fedwave.experiments.store.lock import refuse_links
from fedwave.experiments.store.own_files import RUN_FILES


def publish(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a finished run.")],
    out: Annotated[Path, opt.out("New folder.")],
    json: opt.AsJson = False,
) -> None:
    """Export a compact copy of a finished run, for a repository or an appendix.

    A few megabytes at most. `fedwave reproduce --from` draws the figures from them again.
    """
    from fedwave.experiments.report import published

    check_is_folder(folder)
    refuse_links(folder, RUN_FILES)
    paths = published.publish(stored_results(folder), folder, out)
    if json:
        output.print_json({"files": [str(path) for path in paths]})
    else:
        output.say_where(out, paths)
