"""Processes of the command line: started, struck by signals, waited for, and looked for afterwards."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from killing import children, command, command_of, is_alive

HANG = 60.0  # seconds without an end
MARK = "FEDWAVE_SOAK"  # in the environment of every process that is started, and so of all that it starts
_LOOK = 0.02


class Process:
    """A command in a session of its own; what it prints goes to files, so that no reader can hold it up."""

    def __init__(self, words: list[str], log: Path) -> None:
        self.words = words
        self._logs = log.with_suffix(".out"), log.with_suffix(".err")
        for old in self._logs:  # a worker of a runner that was killed may still write into it
            old.unlink(missing_ok=True)
        with open(self._logs[0], "wb") as out, open(self._logs[1], "wb") as errors:
            self._popen = subprocess.Popen(
                command(*words),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                env={**os.environ, MARK: str(os.getpid()), "OMP_NUM_THREADS": "1"},
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job in the background ignores it
            )
        self.pid = self._popen.pid
        self.killed_by_us = False
        self.too_early = False  # struck while Python itself was starting
        self.workers_struck = 0

    @property
    def status(self) -> int | None:
        return self._popen.poll()

    def wait(self, seconds: float = HANG) -> float | None:
        """Wait for its end; how long that took, or None if it had to be killed."""
        start = time.monotonic()
        while self._popen.poll() is None:
            if time.monotonic() - start > seconds:
                self.send(signal.SIGKILL, [self.pid, *self.workers()])
                self._popen.wait()
                return None
            time.sleep(_LOOK)
        return time.monotonic() - start

    def workers(self) -> list[int]:
        """Its worker processes."""
        return [child for child in children(self.pid) if b"spawn_main" in command_of(child)]

    def strike(self, number: signal.Signals, victim: str, luck: random.Random) -> str | None:
        """Send a signal to the runner, to a worker or to both; returns whom it met, None if it had ended.

        A process that is stopped goes on after a while.
        """
        if self._popen.poll() is not None:
            return None
        workers = self.workers() if victim != "runner" else []
        whom = victim if workers or victim == "runner" else "runner"
        targets = {
            "runner": [self.pid],
            "worker": [luck.choice(workers)] if workers else [],
            "both": [self.pid, *workers],
        }[whom]
        if self.pid in targets:
            self.too_early = self.too_early or not has_begun(self.pid)
            self.killed_by_us |= number == signal.SIGKILL
        self.workers_struck += whom != "runner"
        self.send(number, targets)
        if number == signal.SIGSTOP:
            time.sleep(luck.uniform(0.05, 2.0))
            self.send(signal.SIGCONT, targets)
        return whom

    def send(self, number: signal.Signals, targets: list[int]) -> None:
        for pid in targets:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.kill(pid, number)

    def errors(self) -> str:
        return self._logs[1].read_text(errors="replace")

    def output(self) -> str:
        """All that it printed, for a report."""
        return f"fedwave {' '.join(self.words)}\nexit status {self.status}\n{self.errors()}"

    def printed(self, folder: Path) -> str:
        """Its standard output, with DIR for the folder."""
        return self._logs[0].read_text(errors="replace").replace(str(folder), "DIR")


def has_begun(pid: int) -> bool:
    """Does fedwave run already? Its first act is to catch SIGTERM; before that, signals meet Python's own start."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return True
    caught = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt")), 0)
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def left_over(seconds: float = 10.0) -> list[str]:
    """Processes that outlive what started them by so many seconds; they are killed."""
    until = time.monotonic() + seconds
    while (found := _marked()) and time.monotonic() < until:
        time.sleep(_LOOK)
    names = [command_of(pid).replace(b"\0", b" ").decode(errors="replace") for pid in found]
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return names


def _marked() -> list[int]:
    mark = f"{MARK}={os.getpid()}".encode()
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            pid = int(place.parent.name)
            if mark in place.read_bytes().split(b"\0") and is_alive(pid):
                found.append(pid)
    return found
