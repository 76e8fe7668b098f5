"""The far side of ray.py: what runs on the machines of the cluster.

Tasks share no disk with the process that wants their results. They write to a mailbox that stands beside it; it looks
into the mailbox when it likes.
"""

from __future__ import annotations

import pickle
import time
import traceback
from contextlib import suppress
from typing import Any

from fedwave.adapters.ray_cluster import import_ray
from fedwave.errors import FedwaveError
from fedwave.experiments.keeping import Keeper, NoKeeper, SendingKeeper
from fedwave.experiments.units import Unit
from fedwave.experiments.work import run_unit
from fedwave.version import __version__

Sender = tuple[str, int]  # the unit's name, and which attempt at it this is
_TELL_SECONDS = 0.2


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

    Pickled here, since arrays that Ray itself unpacks lie in its memory, which goes when it is shut down.
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
        outcomes = run_unit(unit, keeper, line.count, lambda text: line.post("warning", text))
    except FedwaveError as error:
        return "refused", str(error)
    except Exception:
        return "failed", traceback.format_exc()
    finally:
        line.close()
    return "done", outcomes


class _Line:
    """From a task to the mailbox; rounds are sent now and then, not one by one.

    Nothing waits for an answer: Ray would give the place of a task that waits to another one.
    """

    def __init__(self, mailbox: Any, sender: Sender) -> None:
        self._mailbox, self._sender = mailbox, sender
        self._rounds, self._told = 0, 0.0
        self._last: Any = None

    def post(self, kind: str, content: Any) -> Any:
        self._last = self._mailbox.post.remote(self._sender, kind, content)
        return self._last

    def count(self, rounds: int) -> None:
        self._rounds += rounds
        if time.monotonic() - self._told > _TELL_SECONDS:
            self._flush()

    def close(self) -> None:
        """All has arrived. The work is done: a mailbox that is gone does not spoil it."""
        ray = import_ray()
        self._flush()
        with suppress(ray.exceptions.RayError):
            ray.get(self._last)

    def _flush(self) -> None:
        self.post("rounds", self._rounds)
        self._rounds, self._told = 0, time.monotonic()


class _PostingKeeper(SendingKeeper):
    """Sends checkpoints, the next one only when the last has arrived: a slow network must not fill the memory."""

    def __init__(self, begin: bytes | None, line: _Line, seconds: float) -> None:
        super().__init__(begin, self._post, seconds)
        self._line, self._on_its_way = line, None

    def due(self) -> bool:
        ray = import_ray()
        if self._on_its_way is not None and not ray.wait([self._on_its_way], timeout=0)[0]:
            return False
        return super().due()

    def _post(self, content: bytes) -> None:
        self._on_its_way = self._line.post("checkpoint", content)
