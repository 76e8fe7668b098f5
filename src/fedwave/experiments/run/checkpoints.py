"""Checkpoints of a unit at work: when one is due, and where it is stored."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import IO

from fedwave.files import write_whole


class Checkpointer:
    """Stores the newest checkpoint of one unit. This base class stores none, and none is ever due."""

    def __init__(self, seconds: float = math.inf) -> None:
        self._seconds, self._last = seconds, time.monotonic()

    def due(self) -> bool:
        """Have ``seconds`` passed since the last time that one was due?"""
        if time.monotonic() - self._last < self._seconds:
            return False
        self._last = time.monotonic()
        return True

    def save(self, write: Callable[[IO[bytes]], None]) -> None:
        """Store what ``write`` writes, instead of the last one."""

    def load(self) -> IO[bytes] | None:
        """The newest checkpoint, open for reading; None if there is none."""
        return None


class FileCheckpointer(Checkpointer):
    """Stores checkpoints in a file, which is complete at any moment."""

    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__(seconds)
        self._path = path

    def save(self, write: Callable[[IO[bytes]], None]) -> None:
        write_whole(self._path, write)

    def load(self) -> IO[bytes] | None:
        return open(self._path, "rb") if self._path.exists() else None


class SendingCheckpointer(Checkpointer):
    """Sends checkpoints to the process that stores them, for a worker on another machine."""

    def __init__(self, start: bytes | None, send: Callable[[bytes], None], seconds: float) -> None:
        super().__init__(seconds)
        self._start, self._send = start, send

    def save(self, write: Callable[[IO[bytes]], None]) -> None:
        content = BytesIO()
        write(content)
        self._send(content.getvalue())

    def load(self) -> IO[bytes] | None:
        return None if self._start is None else BytesIO(self._start)
