"""Checkpoints of a unit at work: when one is written, and where it is stored."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import IO

from fedwave.errors import FedwaveError
from fedwave.experiments.run.signals import Stopped
from fedwave.files.writing import write_whole

Write = Callable[[IO[bytes]], None]
Asked = Callable[[], bool]  # is the unit to stop?
_SHARE = 10  # of the time between checkpoints, writing them takes at most one part in so many


def never() -> bool:
    """Nobody asks the unit to stop."""
    return False


class Checkpointer:
    """Stores the newest checkpoint of one unit. This base class stores none, and none is ever due."""

    name = "the checkpoint"  # in messages

    def __init__(self, seconds: float = math.inf, asked: Asked = never) -> None:
        self._seconds, self._asked = seconds, asked
        self._last = self._looked = time.monotonic()
        self._took = 0.0

    def between_rounds(self, write: Write) -> None:
        """Called where the unit can stop: save if one is due; if it is asked to stop, save and raise Stopped."""
        stop = self._asked()
        if stop or self.due():
            began = time.monotonic()
            self.save(write)
            self._last = self._looked = time.monotonic()
            self._took = self._last - began
        if stop:
            raise Stopped

    def stop_if_asked(self) -> None:
        """Called where there is nothing to save yet."""
        if self._asked():
            raise Stopped

    def due(self) -> bool:
        """Would the last one be older than ``seconds`` at the next call, if that comes as late as this one did?

        One that takes long to write (of a deep model, with a gradient waiting at every device, it has gigabytes) may
        grow older, but for 0 seconds, which ask for one after every round.
        """
        now = time.monotonic()
        step, self._looked = now - self._looked, now
        oldest = max(self._seconds, _SHARE * self._took) if self._seconds else 0.0
        return now + step - self._last >= oldest

    def save(self, write: Write) -> None:
        """Store what ``write`` writes, instead of the last one."""

    def load(self) -> IO[bytes] | None:
        """The newest checkpoint, open for reading; None if there is none."""
        return None


class FileCheckpointer(Checkpointer):
    """Stores checkpoints in a file, which is complete at any moment."""

    def __init__(self, path: Path, seconds: float, asked: Asked = never) -> None:
        super().__init__(seconds, asked)
        self._path = path
        self.name = f"the checkpoint {path}"

    def save(self, write: Write) -> None:
        if not self._path.is_dir():  # somebody's folder; the unit can do without checkpoints
            write_whole(self._path, write)

    def load(self) -> IO[bytes] | None:
        if not self._path.exists():
            return None
        if not self._path.is_file():  # a pipe in its place would be waited for
            raise FedwaveError("it is no file")
        return open(self._path, "rb")


class SendingCheckpointer(Checkpointer):
    """Sends checkpoints to the process that stores them, for a worker on another machine."""

    def __init__(
        self, start: bytes | None, send: Callable[[bytes], None], seconds: float, asked: Asked = never
    ) -> None:
        super().__init__(seconds, asked)
        self._start, self._send = start, send

    def save(self, write: Write) -> None:
        content = BytesIO()
        write(content)
        self._send(content.getvalue())

    def load(self) -> IO[bytes] | None:
        return None if self._start is None else BytesIO(self._start)
