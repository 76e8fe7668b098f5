"""The checkpoint of a unit at work: when it is written, and where it is stored."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeVar

from fedwave.errors import FedwaveError
from fedwave.experiments.config.units import Unit
from fedwave.experiments.run.signals import Stopped
from fedwave.experiments.store.checkpoint_file import check_checkpoint_file, write_checkpoint_file
from fedwave.files.writing import write_whole

Write = Callable[[IO[bytes]], None]
Asked = Callable[[], bool]  # is the unit to stop?
Warn = Callable[[str], object]  # called with a sentence
T = TypeVar("T")
_SHARE = 10  # writing checkpoints takes at most a tenth of the time between them


def never() -> bool:
    """Nobody asks the unit to stop."""
    return False


class Checkpointer:
    """Keeps the newest checkpoint of a unit in a file, which is complete at any moment; ``path`` None: keeps none."""

    def __init__(self, unit: Unit, path: Path | None, asked: Asked = never) -> None:
        self._unit, self._path, self._asked = unit, path, asked
        self._seconds = unit.experiment.checkpoint_seconds
        self._last = self._looked = time.monotonic()
        self._took = 0.0

    def between_rounds(self, write: Write) -> None:
        """Called where the unit can stop: save if one is due; if it is asked to stop, save and raise Stopped."""
        stop = self._asked()
        if stop or self._due():
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

    def save(self, write: Write) -> None:
        """Replace the checkpoint. ``write`` writes the new one."""
        if self._path is not None and not self._path.is_dir():  # a folder of the user stays; checkpoints are optional
            write_whole(self._path, lambda file: write_checkpoint_file(file, self._unit, write))

    def load(self, read: Callable[[IO[bytes]], T], warn: Warn) -> T | None:
        """The checkpoint, read by ``read``; None if there is none, or if it is corrupt or from another unit."""
        if self._path is None or not self._path.exists():
            return None
        try:
            if not self._path.is_file():  # a pipe in its place would be waited for
                raise FedwaveError("it is not a file")
            with open(self._path, "rb") as raw:
                check_checkpoint_file(raw, self._unit)
                return read(raw)
        except Exception as error:  # a corrupt or forged file can raise anything
            warn(f"the checkpoint {self._path} cannot be used, so the unit starts again ({error})")
            return None

    def _due(self) -> bool:
        """Is a checkpoint due? True if waiting for the next call would make the newest one too old.

        One that takes long to write (of a deep model, with a gradient waiting at every device, it has gigabytes) may
        grow older, but for 0 seconds, which ask for one after every round.
        """
        now = time.monotonic()
        step, self._looked = now - self._looked, now
        oldest = max(self._seconds, _SHARE * self._took) if self._seconds else 0.0
        return now + step - self._last >= oldest
