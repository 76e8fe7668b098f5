"""`fedwave data`: download the datasets, check them, print where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.errors import FedwaveError, did_you_mean
from fedwave.learning.data.originals import MD5, data_folder, md5_of, read_original
from fedwave.progress import steps


def data(
    dataset: Annotated[str | None, typer.Argument(help=f"One of {', '.join(MD5)}.", show_default="both")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder to keep them in.", show_default="FEDWAVE_DATA or a cache")
    ] = None,
    json: opt.AsJson = False,
) -> None:
    """Get MNIST and CIFAR-10, check their md5 sums, and say where they are."""
    # Imported here: the other commands do not need the HTTP client.
    from fedwave.learning.data.download import fetch

    if dataset is not None and dataset not in MD5:
        raise FedwaveError(f"there is no dataset {dataset!r} to get; {did_you_mean(dataset, MD5)}")
    folder = data_folder() if out is None else out
    found = {}
    for name in MD5 if dataset is None else [dataset]:
        with steps() as message:
            new = fetch(name, folder, message)
            message(f"checking {name}")
            found[name] = _inspect(name, folder, new)
        if not json:
            _print(name, found[name])
    if json:
        output.print_json({"folder": str(folder), "datasets": found})
    elif folder != data_folder():
        output.say(f"To use them, set FEDWAVE_DATA={folder}")


def _inspect(name: str, folder: Path, new: list[str]) -> dict[str, Any]:
    """The files of a dataset; reading one checks that it is the published one."""
    files = {}
    for file in MD5[name]:
        content = read_original(name, file, folder)
        files[file] = {"bytes": len(content), "md5": md5_of(content), "fetched": file in new}
    return {"folder": str(folder / name), "files": files}


def _print(name: str, found: dict[str, Any]) -> None:
    output.say(f"{name} in {found['folder']}: the md5 sums are the published ones")
    for file, about in found["files"].items():
        how = "fetched" if about["fetched"] else "was there"
        output.say(f"  {file:<28}{about['bytes']:>12,} bytes  {about['md5']}  {how}")
