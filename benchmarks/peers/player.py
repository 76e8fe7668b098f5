"""Talks to a process that plays rounds (players/protocol.py)."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, Self

from benchmarks.peers.contenders import ROOT
from fedwave.types import Array

_PATIENCE = 900.0  # seconds for an answer
_FAREWELL = 30.0  # seconds to end by itself


class PlayerFailed(Exception):
    """A player that ended or does not answer; the text says why."""


class Player:
    """A running player. Use it as a context: the player and its own processes end with the block."""

    def __init__(self, python: Path, words: Sequence[str], alone: bool = False) -> None:
        """``alone``: it does not see the packages of this Python."""
        environment = {k: v for k, v in os.environ.items() if not (alone and k.startswith("PYTHON"))}
        path = [str(ROOT), *filter(None, [environment.get("PYTHONPATH")])]
        environment |= {"PYTHONPATH": os.pathsep.join(path), "PYTHONWARNINGS": "ignore"}
        self._connection, theirs = Pipe()
        self._output = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        # In a session of its own: Ctrl-C is for the benchmark, which ends its players itself.
        self._process = subprocess.Popen(
            [str(python), "-m", "benchmarks.peers.players", str(theirs.fileno()), *words],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            env=environment,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        self.memory: int | None = None  # bytes: the most that it used after playing

    def versions(self) -> dict[str, str]:
        """Waits until it is ready; returns the versions that it plays with."""
        return dict(self._answer())

    def play(self, first: int, last: int) -> tuple[float, int]:
        """Lets it play some rounds; returns the seconds and the number of samples that were back-propagated."""
        seconds, samples = self._ask((first, last))
        used = _memory_of(self._process.pid)
        if used is not None:
            self.memory = max(used, self.memory or 0)
        return seconds, samples

    def weights(self) -> dict[str, Array]:
        """The central model."""
        return dict(self._ask("weights"))

    def _ask(self, question: object) -> Any:
        with suppress(OSError):  # it has ended: the answer says why
            self._connection.send(question)
        return self._answer()

    def _answer(self) -> Any:
        try:
            if self._connection.poll(_PATIENCE):
                return self._connection.recv()
        except (EOFError, OSError):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=10)
            self._output.seek(0)
            lines = [line.strip() for line in self._output if line.strip()]
            why = lines[-1].rstrip(".") if lines else "no reason was given"
            raise PlayerFailed(f"it ended with status {self._process.returncode}: {why}") from None
        raise PlayerFailed(f"it has not answered for {_PATIENCE:.0f} s")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *more: object) -> None:
        family = _family(self._process.pid)
        with suppress(OSError):
            self._connection.send(None)  # it ends by itself
        try:
            # Ctrl-C does not wait for a player that is busy.
            self._process.wait(timeout=_FAREWELL if kind is None else 0)
        except subprocess.TimeoutExpired:
            for process in family:
                with suppress(OSError):
                    os.kill(process, signal.SIGKILL)
            self._process.wait()
        self._connection.close()
        self._output.close()


def _memory_of(process: int) -> int | None:
    """Bytes that a process and its own processes use, shared memory divided among them; None if it is unknown."""
    found = 0
    for one in _family(process):
        with suppress(OSError):  # another system, or it has just ended
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
            found += sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return found or None


def _family(process: int) -> list[int]:
    """A process and its descendants; only itself on a system without /proc."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name, in brackets, may have blanks and brackets of its own.
            parent = int(place.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(place.parent.name))
    found = [process]
    for one in found:
        found += children.get(one, [])
    return found
