"""Download the missing files of a dataset from the first source that has them, checked and written whole."""

from __future__ import annotations

import errno
import io
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from fedwave.errors import FedwaveError
from fedwave.files.writing import check_folder, write_whole
from fedwave.learning.data.originals import MD5, NoData, command, md5_of, missing
from fedwave.learning.data.sources import SOURCES, Source


def fetch(name: str, folder: Path, tell: Callable[[str], None] = lambda text: None) -> list[str]:
    """Put the missing files of a dataset into a folder; returns their names. ``tell`` is called with every attempt."""
    wanted = missing(name, folder)
    if not wanted:
        return []
    try:
        check_folder(folder / name)  # now, not after 140 MB
    except FedwaveError as error:
        why = str(error).rstrip(".")
        raise FedwaveError(f"{name} has to be fetched, but {why} with FEDWAVE_DATA.") from None
    failures = []
    for label, source in SOURCES[name].items():
        tell(f"{name} from {label}")
        try:
            _keep(name, folder, source)
        except FedwaveError:
            raise
        except Exception as error:  # no network, no client, or content of any kind
            if getattr(error, "errno", None) == errno.ENOSPC:
                raise FedwaveError(
                    f"{name} could not be fetched: no space is left in {tempfile.gettempdir()}; "
                    "free some, or set TMPDIR to a larger folder."
                ) from None
            failures.append(f"{label}: {_reason(error)}")
        if not missing(name, folder):
            return wanted
    raise NoData(
        f"{name} could not be fetched ({'; '.join(failures)}): run {command(name, folder)} where there is a "
        f"network, or put {', '.join(missing(name, folder))} into {folder / name}, or set FEDWAVE_DATA to a "
        f"folder whose {name} folder has them."
    )


def _keep(name: str, folder: Path, source: Source) -> None:
    """Write the files of a source, each only if its md5 sum is the published one."""
    with (
        tempfile.TemporaryDirectory(prefix="fedwave-", ignore_cleanup_errors=True) as scratch,
        closing(source(missing(name, folder), Path(scratch))) as files,
    ):
        for file, content in files:
            found = md5_of(content)
            if found != MD5[name][file]:
                raise ValueError(f"the md5 sum of {file} is {found}, not {MD5[name][file]}")
            write_whole(folder / name / file, partial(_write, content))


def _write(content: bytes, out: io.BufferedIOBase) -> None:
    out.write(content)


def _reason(error: Exception) -> str:
    """Why a source failed, in a few words."""
    inner = getattr(error, "reason", error)  # what urllib wraps
    text = " ".join((getattr(inner, "strerror", None) or str(inner) or type(error).__name__).split())
    # A server's own words may hold what a terminal obeys.
    return "".join(c if c.isprintable() else "?" for c in text.rstrip(".")[:160])
