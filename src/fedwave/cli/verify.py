"""`fedwave verify`: is a run folder sound, or are two runs the same?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.errors import FedwaveError
from fedwave.experiments.store.diff import compare_runs
from fedwave.experiments.store.verify import Finding, sound
from fedwave.experiments.store.verify import verify as check_folder
from fedwave.files.reading import is_there

_STYLES = {"ok": "green", "note": "yellow", "open": "yellow", "wrong": "bold red", "differs": "bold red"}


def verify(
    folder: opt.RunFolderPath,
    other: Annotated[
        Path | None, typer.Argument(metavar="[OTHER]", help="A second one to compare it with.", show_default=False)
    ] = None,
    json: opt.AsJson = False,
) -> None:
    """Check a run folder (checksums, units, inputs, versions), or compare two runs.

    The exit status is 0 if a folder is sound, or if two runs are the same to the last bit; otherwise 1. Nothing is
    imported or run.
    """
    for one in (folder, *([] if other is None else [other])):
        if not (is_there(one) and one.is_dir()):
            what = "is a file, not a run folder" if is_there(one) else "does not exist"
            raise FedwaveError(f"{one} {what}.")
    found = check_folder(folder) if other is None else compare_runs(folder, other)
    good = sound(found)
    if json:
        content = {"sound" if other is None else "same": good, "findings": [asdict(f) for f in found]}
        output.print_json(content)
    elif other is None:
        only_open = all(one.state in ("ok", "note", "open") for one in found)
        verdict = "sound" if good else "not finished, and sound so far" if only_open else "NOT sound"
        _print(f"{folder} is {verdict}.", found)
    else:
        verdict = "are the same run" if good else "are NOT the same"
        _print(f"A ({folder}) and B ({other}) {verdict}.", found)
    raise typer.Exit(0 if good else 1)


def _print(verdict: str, found: list[Finding]) -> None:
    table = output.definitions()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    before = ""
    for one in found:
        about = one.about if one.about != before else ""
        table.add_row(Text(one.state, _STYLES[one.state]), about, one.text)
        before = one.about
    output.console().print(table)
    output.print_out(verdict)
