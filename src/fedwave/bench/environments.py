"""The environments of the other simulators: each has one of its own, with its own pins, made by the bench.

They clash with each other and with fedwave. An environment is kept among the caches; a change of its pins, or another
Python, makes another one.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from fedwave.errors import FedwaveError
from fedwave.files.cache import cache_folder
from fedwave.files.writing import check_folder

PLAYERS = Path(__file__).with_name("players")
_FINISHED = "finished.txt"
_LIMIT = 3600  # seconds for one step of pip


class NoEnvironment(Exception):
    """An environment that is not there, or cannot be made; the text says why."""


@dataclass(frozen=True)
class Peer:
    """Another simulator: what pip installs, under the pins of a constraints file beside the players."""

    name: str
    requirement: str
    constraints: str

    @property
    def pins(self) -> Path:
        return PLAYERS / self.constraints

    def folder(self, environments: Path) -> Path:
        """The folder of this environment, whether or not it is there."""
        about = f"{self.pins.read_text()}{sys.version_info[:2]}"
        return environments / f"{self.name}-{hashlib.sha256(about.encode()).hexdigest()[:12]}"

    def torch(self) -> str:
        """The pin of torch."""
        lines = self.pins.read_text().splitlines()
        return next(line for line in lines if line.startswith("torch=="))


def default_folder() -> Path:
    """Where environments are kept if nothing else is said."""
    return cache_folder("environments", "name a folder with --environments") / "environments"


def python_of(peer: Peer, environments: Path, make: bool, message: Callable[[str], None]) -> Path:
    """The Python of a peer's environment, which is made if ``make`` says so. Raises NoEnvironment."""
    folder = peer.folder(environments)
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if (folder / _FINISHED).is_file():
        return python
    if not make:
        raise NoEnvironment("it has no environment here: --peers makes one")
    try:
        check_folder(environments)
    except FedwaveError as error:
        raise NoEnvironment(str(error).rstrip(".")) from None
    with FileLock(environments / f"{folder.name}.lock"):
        if not (folder / _FINISHED).is_file():  # another process may have made it meanwhile
            _make(peer, folder, python, message)
    return python


def _make(peer: Peer, folder: Path, python: Path, message: Callable[[str], None]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    pip += ["--constraint", str(peer.pins)]
    # torch first and by its exact pin: asked for by a range, pip may choose a build many times as large.
    for what, step in (
        ("a bare environment", [sys.executable, "-m", "venv", str(folder)]),
        ("torch", [*pip, peer.torch()]),
        (peer.requirement, [*pip, peer.requirement]),
    ):
        message(f"{peer.name}: installing {what}")
        try:
            done = subprocess.run(
                step,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                timeout=_LIMIT,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoEnvironment(f"its environment cannot be made: {error}") from None
        if done.returncode:
            raise NoEnvironment(f"its environment cannot be made: {last_line(done.stderr)}")
    (folder / _FINISHED).write_text(peer.pins.read_text())


def last_line(text: str) -> str:
    """The last line that says something; of pip its first error, which the others only explain."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors[:1] or lines[-1:] or ["no reason was given"])[0].rstrip(".")
