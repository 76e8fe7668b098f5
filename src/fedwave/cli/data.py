"""`fedwave data`: download the datasets, check them, print where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.progress import steps
from fedwave.errors import FedwaveError, did_you_mean
from fedwave.learning.datasets.original_files import MD5, data_folder, read_original


def data(
    dataset: Annotated[str | None, opt.argument("NAME", f"One of {', '.join(MD5)}; default: all.")] = None,
    out: Annotated[Path | None, opt.out("Folder to keep them in. Default: FEDWAVE_DATA, or a cache.")] = None,
    json: opt.AsJson = False,
) -> None:
    """Download MNIST and CIFAR-10, check them, and print where they are."""
    # Imported here: the other commands do not read archives.
    from fedwave.learning.datasets.sources import fetch

    if dataset is not None and dataset not in MD5:
        raise FedwaveError(f"there is no dataset {dataset!r} to get; {did_you_mean(dataset, MD5)}")
    folder = data_folder() if out is None else out
    found = {}
    for name in MD5 if dataset is None else [dataset]:
        with steps() as message:
            fetched = fetch(name, folder, message)
            message(f"checking {name}")
            files = {
                file: {"bytes": len(read_original(name, file, folder)), "md5": md5, "fetched": file in fetched}
                for file, md5 in MD5[name].items()
            }
        found[name] = {"folder": str(folder / name), "files": files}
        if not json:
            output.print_out(f"{name} in {folder / name}: the md5 checksums are the published ones")
            for file, about in files.items():
                how = "fetched" if about["fetched"] else "was there"
                output.print_out(f"  {file:<28}{about['bytes']:>12,} bytes  {about['md5']}  {how}")
    if json:
        output.print_json({"folder": str(folder), "datasets": found})
    elif folder != data_folder():
        output.print_out(f"To use them, set FEDWAVE_DATA={folder}")
