"""`fedwave data`: get the datasets, check them, say where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.errors import FedwaveError, did_you_mean
from fedwave.learning.data.originals import MD5, data_folder, md5_of, read_original


def data(
    dataset: Annotated[
        str | None,
        typer.Argument(help=f"One of {', '.join(MD5)}.", show_default="both"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Folder to keep them in.", show_default="FEDWAVE_DATA or a cache"
        ),
    ] = None,
    json: opt.AsJson = False,
) -> None:
    """Get MNIST and CIFAR-10, check their md5 sums, and say where they are."""
    # Here, not above: the other commands need not wait for what talks to servers to be loaded.
    from fedwave.learning.data.download import fetch

    if dataset is not None and dataset not in MD5:
        raise FedwaveError(f"there is no dataset {dataset!r} to get; {did_you_mean(dataset, MD5)}")
    folder = data_folder() if out is None else out
    found = {}
    for name in MD5 if dataset is None else [dataset]:
        with _spinner() as tell:
            new = fetch(name, folder, tell)
            tell(f"checking {name}")
            found[name] = _inspect(name, folder, new)
        if not json:
            _print(name, found[name])
    if json:
        output.print_json({"folder": str(folder), "datasets": found})
    elif folder != data_folder():
        print(f"To use them, set FEDWAVE_DATA={folder}")


def _inspect(name: str, folder: Path, new: list[str]) -> dict[str, Any]:
    """What lies there, each file read again and found to be the published one."""
    files = {}
    for file in MD5[name]:
        content = read_original(name, file, folder)
        files[file] = {"bytes": len(content), "md5": md5_of(content), "fetched": file in new}
    return {"folder": str(folder / name), "files": files}


def _print(name: str, found: dict[str, Any]) -> None:
    print(f"{name} in {found['folder']}: the md5 sums are the published ones")
    for file, about in found["files"].items():
        how = "fetched" if about["fetched"] else "was there"
        print(f"  {file:<28}{about['bytes']:>12,} bytes  {about['md5']}  {how}")


@contextmanager
def _spinner() -> Iterator[Callable[[str], None]]:
    """Shows what is being done and for how long; silent when standard error is not a terminal."""
    error = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=error, transient=True, disable=not error.is_terminal) as bar:
        task = bar.add_task("looking")
        yield lambda text: bar.update(task, description=text)
