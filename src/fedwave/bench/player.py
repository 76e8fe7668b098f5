"""A process that plays rounds: asked and answered in lines of JSON (players/rounds_protocol.py)."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

from fedwave.bench.environments import last_line

_PATIENCE = 900.0  # seconds for an answer
_FAREWELL = 30.0  # seconds to end by itself
_KEPT = 20_000  # characters of standard error that are looked at


class PlayerFailed(Exception):
    """A player that ended, or does not answer; the text says why."""


class Player:
    """Use it as a context: it ends with the block, at once if the block fails."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self._said: IO[str] = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        # A session of its own: Ctrl-C is for the bench, which ends its players itself.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            env=dict(environment),
            start_new_session=True,
        )
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self.memory: int | None = None  # bytes, the most that was seen after playing

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def ready(self) -> dict[str, str]:
        """Wait for its first words: the versions that it plays with."""
        return dict(self._answer()["versions"])

    def play(self, first: int, last: int) -> tuple[float, int]:
        """Seconds, and samples that were back-propagated, of some rounds."""
        answer = self._asked(ask="play", first=first, last=last)
        used = memory_of(self._process.pid)
        if used is not None:
            self.memory = max(used, self.memory or 0)
        return float(answer["seconds"]), int(answer["samples"])

    def weights(self, path: Path) -> None:
        """Let it write the central model."""
        self._asked(ask="weights", path=str(path))

    def _asked(self, **question: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise PlayerFailed(self._why()) from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=_PATIENCE)
        except queue.Empty:
            raise PlayerFailed(f"it has not answered for {_PATIENCE:.0f} s") from None
        if not line:
            raise PlayerFailed(self._why())
        return dict(json.loads(line))

    def _why(self) -> str:
        """Its last words."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)
        self._said.seek(0)
        return f"it ended with status {self._process.returncode}: {last_line(self._said.read()[-_KEPT:])}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *more: object) -> None:
        """Let it end; what is left of it and its own processes is killed."""
        family = _family(self._process.pid)
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write('{"ask": "end"}\n')
            self._process.stdin.close()
        try:
            # Ctrl-C does not wait for a player that is busy.
            self._process.wait(timeout=_FAREWELL if kind is None else 0)
        except subprocess.TimeoutExpired:
            for process in family:
                with suppress(OSError):
                    os.kill(process, signal.SIGKILL)
            self._process.kill()
            self._process.wait()
        self._listener.join(_FAREWELL)
        assert self._process.stdout is not None
        if not self._listener.is_alive():  # else a process that it left behind holds the pipe
            self._process.stdout.close()
        self._said.close()


def memory_of(process: int) -> int | None:
    """Bytes that a process and those that it started use, memory in common shared out; None where nobody tells."""
    found = 0
    for one in _family(process):
        try:
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        except OSError:  # another system, or it has just ended
            continue
        found += sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return found or None


def _family(process: int) -> list[int]:
    """A process and all that descend from it; itself alone where nobody tells."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            # The name, in brackets, may have blanks and brackets of its own.
            parent = int(place.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(place.parent.name))
    found = [process]
    for one in found:
        found += children.get(one, [])
    return found
