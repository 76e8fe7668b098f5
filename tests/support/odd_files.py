"""What may stand in the place of a file and would never end, or not fit in memory."""

from __future__ import annotations

import os
from pathlib import Path


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def enormous(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(10**12)  # takes no space
