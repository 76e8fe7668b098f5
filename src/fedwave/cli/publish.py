"""`fedwave publish`: the small files of a finished run that its figures can be drawn from again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.experiments.store.folder import check_is_folder
from fedwave.experiments.store.load import stored_results


def publish(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a finished run.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", parser=opt.named, metavar="PATH", help="New folder.", show_default=False)
    ],
    json: opt.AsJson = False,
) -> None:
    """Write what a repository or an appendix can hold of a finished run: tidy tables, its figures, where it is from.

    A few megabytes at most. `fedwave reproduce --from` draws the figures from them again.
    """
    from fedwave.experiments.report import published

    check_is_folder(folder)
    paths = published.publish(stored_results(folder), folder, out)
    if json:
        output.print_json({"files": [str(path) for path in paths]})
    else:
        output.say_where(out, paths)
