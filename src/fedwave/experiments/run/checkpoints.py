"""Checkpoints of a unit at work: when to write one, and where to."""

from __future__ import annotations

import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import IO, Protocol

from fedwave.files import write_whole


class Keeper(Protocol):
    """Keeps the newest checkpoint of one unit."""

    def due(self) -> bool:
        """Is it time for another?"""
        ...

    def save(self, write: Callable[[IO[bytes]], None]) -> None:
        """Keep what ``write`` writes."""
        ...

    def saved(self) -> IO[bytes] | None:
        """The newest one, to be read; None if there is none."""
        ...


class _Clock:
    def __init__(self, seconds: float) -> None:
        self._seconds, self._last = seconds, time.monotonic()

    def due(self) -> bool:
        if time.monotonic() - self._last < self._seconds:
            return False
        self._last = time.monotonic()
        return True


class NoKeeper:
    """For work that is over before a checkpoint would be worth it."""

    def due(self) -> bool:
        return False

    def save(self, write: Callable[[IO[bytes]], None]) -> None:
        pass

    def saved(self) -> IO[bytes] | None:
        return None


class FileKeeper(_Clock):
    """A file on this machine's disk, whole at any moment."""

    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__(seconds)
        self._path = path

    def save(self, write: Callable[[IO[bytes]], None]) -> None:
        write_whole(self._path, write)

    def saved(self) -> IO[bytes] | None:
        return open(self._path, "rb") if self._path.exists() else None


class SendingKeeper(_Clock):
    """For a worker without a disk in common with whoever keeps its checkpoints."""

    def __init__(self, begin: bytes | None, send: Callable[[bytes], None], seconds: float) -> None:
        super().__init__(seconds)
        self._begin, self._send = begin, send

    def save(self, write: Callable[[IO[bytes]], None]) -> None:
        content = BytesIO()
        write(content)
        self._send(content.getvalue())

    def saved(self) -> IO[bytes] | None:
        return None if self._begin is None else BytesIO(self._begin)
