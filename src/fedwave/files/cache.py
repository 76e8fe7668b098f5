"""The folder in the user's cache, for files that can be made or downloaded again."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from platformdirs import user_cache_path

from fedwave.errors import FedwaveError


def cache_folder(what: str, instead: str) -> Path:
    """fedwave's folder in the user's cache; without a home folder, the error about ``what`` ends with ``instead``."""
    with suppress(RuntimeError):  # platformdirs finds no home folder; older versions return a path that begins with ~
        folder = user_cache_path("fedwave", appauthor=False)
        if folder.is_absolute():
            return folder
    raise FedwaveError(f"there is no home folder to keep {what} in: {instead}.")
