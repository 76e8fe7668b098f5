"""Talks to a process that plays rounds (players/protocol.py): a line of JSON for a line of JSON."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from benchmarks.peers.environments import ROOT, reason_in

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
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        # In a session of its own: Ctrl-C is for the benchmark, which ends its players itself.
        self._process = subprocess.Popen(
            [str(python), "-m", "benchmarks.peers.players", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._questions, self._answers = self._process.stdin, self._process.stdout
        self.memory: int | None = None  # bytes: the most that it used after playing

    def versions(self) -> dict[str, str]:
        """Waits until it is ready; returns the versions that it plays with."""
        return dict(self._answer()["versions"])

    def play(self, first: int, last: int) -> tuple[float, int]:
        """Lets it play some rounds; returns the seconds and the number of samples that were back-propagated."""
        answer = self._ask(play=[first, last])
        used = _memory_of(self._process.pid)
        if used is not None:
            self.memory = max(used, self.memory or 0)
        return float(answer["seconds"]), int(answer["samples"])

    def write_weights(self, path: Path) -> None:
        """Lets it write the central model."""
        self._ask(weights=str(path))

    def _ask(self, **question: Any) -> dict[str, Any]:
        with suppress(OSError):  # it has ended: the answer says why
            self._questions.write(json.dumps(question) + "\n")
            self._questions.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        if not select.select([self._answers], [], [], _PATIENCE)[0]:
            raise PlayerFailed(f"it has not answered for {_PATIENCE:.0f} s")
        line = self._answers.readline()
        if line:
            return dict(json.loads(line))
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)
        self._errors.seek(0)
        raise PlayerFailed(f"it ended with status {self._process.returncode}: {reason_in(self._errors.read())}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *more: object) -> None:
        family = _family(self._process.pid)
        with suppress(OSError):
            self._questions.close()  # it ends by itself
        try:
            # Ctrl-C does not wait for a player that is busy.
            self._process.wait(timeout=_FAREWELL if kind is None else 0)
        except subprocess.TimeoutExpired:
            for process in family:
                with suppress(OSError):
                    os.kill(process, signal.SIGKILL)
            self._process.wait()
        self._answers.close()
        self._errors.close()


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
