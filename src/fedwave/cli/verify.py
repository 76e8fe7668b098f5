"""`fedwave verify`: is a run folder sound, or are two runs the same?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.experiments.store.diff import compare_runs
from fedwave.experiments.store.folder import check_is_folder
from fedwave.experiments.store.verify import sound
from fedwave.experiments.store.verify import verify as check_folder

_STYLES = {"ok": "green", "note": "yellow", "open": "yellow", "wrong": "bold red", "differs": "bold red"}


def verify(
    folder: opt.RunFolderPath,
    other: Annotated[Path | None, opt.argument("OTHER", "A second one to compare it with.")] = None,
    json: opt.AsJson = False,
) -> None:
    """Check a run folder (checksums, units, inputs, versions), or compare two runs.

    The exit status is 0 if a folder is sound, or if two runs are the same to the last bit; otherwise 1. Nothing is
    imported or run.
    """
    check_is_folder(folder)
    if other is not None:
        check_is_folder(other)
    found = check_folder(folder) if other is None else compare_runs(folder, other)
    good = sound(found)
    if json:
        output.print_json({"sound" if other is None else "same": good, "findings": [asdict(f) for f in found]})
        raise typer.Exit(0 if good else 1)
    table, before = output.definitions(columns=3), ""
    for one in found:
        table.add_row(Text(one.state, _STYLES[one.state]), one.about if one.about != before else "", one.text)
        before = one.about
    output.console().print(table)
    if other is not None:
        output.print_out(f"A ({folder}) and B ({other}) {'are the same run' if good else 'are NOT the same'}.")
    else:
        only_open = all(one.state in ("ok", "note", "open") for one in found)
        verdict = "sound" if good else "not finished, and sound so far" if only_open else "NOT sound"
        output.print_out(f"{folder} is {verdict}.")
    raise typer.Exit(0 if good else 1)
