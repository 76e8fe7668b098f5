"""The far side of ray.py: what runs on the machines of the cluster.

Tasks share no disk with the process that wants their results. They write to a mailbox that stands beside it; it looks
into the mailbox when it likes.
"""

from __future__ import annotations

import pickle
import time
import traceback
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from fedwave.adapters.ray_cluster import import_ray
from fedwave.errors import FedwaveError
from fedwave.experiments.run.checkpoints import Keeper, NoKeeper, SendingKeeper
from fedwave.experiments.run.units import Unit
from fedwave.experiments.run.work import run_unit
from fedwave.version import __version__

Sender = tuple[str, int]  # the unit's name, and which attempt at it this is
_TELL_SECONDS = 0.2
_CLOSE_SECONDS = 60.0


class Mailbox:
    """An actor: keeps letters, and of each sender the newest checkpoint, until they are fetched."""

    def __init__(self) -> None:
        self._letters: list[tuple[Sender, str, Any]] = []
        self._checkpoints: dict[Sender, bytes] = {}

    def post(self, sender: Sender, kind: str, content: Any) -> None:
        if kind == "checkpoint":
            self._checkpoints[sender] = content
        else:
            self._letters.append((sender, kind, content))

    def letters(self) -> tuple[list[tuple[Sender, str, Any]], list[Sender]]:
        """All letters since the last time, and who has sent a checkpoint."""
        letters, self._letters = self._letters, []
        return letters, list(self._checkpoints)

    def checkpoint(self, sender: Sender) -> bytes | None:
        """The checkpoint, which is not kept any longer here."""
        return self._checkpoints.pop(sender, None)


def do_unit(
    unit: Unit, attempt: int, begin: bytes | None, keep: bool, version: str, mailbox: Any
) -> bytes:
    """A Ray task: (what happened, what came out, seconds), pickled.

    Pickled here: arrays that Ray itself unpacks are read-only, and lie in its shared memory, which is shut down first.
    """
    start = time.monotonic()
    kind, content = _answer(unit, begin, keep, version, _Line(mailbox, (unit.name, attempt)))
    return pickle.dumps((kind, content, time.monotonic() - start))


def _answer(
    unit: Unit, begin: bytes | None, keep: bool, version: str, line: _Line
) -> tuple[str, Any]:
    line.post("begun", None)
    try:
        if version != __version__:
            raise FedwaveError(
                f"a node of the Ray cluster has fedwave {__version__}, but this is fedwave {version}: "
                "install the same there."
            )
        keeper: Keeper = NoKeeper()
        if keep:
            keeper = _PostingKeeper(begin, line, unit.experiment.checkpoint_seconds)
        if unit.experiment.task is not None:
            from fedwave.learning.replay import use_threads

            use_threads(1)
        data = run_unit(unit, keeper, line.count, line.warn)
    except FedwaveError as error:
        return "refused", str(error)
    except Exception:
        return "failed", traceback.format_exc()
    finally:
        line.close()
    return "done", data


class _Line:
    """From a task to the mailbox; rounds are sent now and then, not one by one.

    It looks at futures, never into ray.get or ray.wait: Ray would give the CPU of a task that waits there to another.
    """

    def __init__(self, mailbox: Any, sender: Sender) -> None:
        self._mailbox, self._sender = mailbox, sender
        self._rounds, self._told = 0, 0.0

    def post(self, kind: str, content: Any) -> Future[None]:
        """Send it; the future is done when it has arrived."""
        arrival: Future[None] = self._mailbox.post.remote(self._sender, kind, content).future()
        return arrival

    def warn(self, text: str) -> None:
        self.post("warning", text)

    def count(self, rounds: int) -> None:
        self._rounds += rounds
        if time.monotonic() - self._told > _TELL_SECONDS:
            self._flush()

    def close(self) -> None:
        """Wait until all has arrived; the work is done, so a mailbox that is gone does not spoil it."""
        last = self._flush()
        with suppress(import_ray().exceptions.RayError, TimeoutError):
            last.result(_CLOSE_SECONDS)

    def _flush(self) -> Future[None]:
        last = self.post("rounds", self._rounds)
        self._rounds, self._told = 0, time.monotonic()
        return last


class _PostingKeeper(SendingKeeper):
    """Sends checkpoints, the next one only when the last has arrived: a slow network must not fill the memory."""

    def __init__(self, begin: bytes | None, line: _Line, seconds: float) -> None:
        super().__init__(begin, self._post, seconds)
        self._line = line
        self._arrival: Future[None] | None = None

    def due(self) -> bool:
        return (self._arrival is None or self._arrival.done()) and super().due()

    def _post(self, content: bytes) -> None:
        self._arrival = self._line.post("checkpoint", content)
