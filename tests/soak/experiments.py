"""The experiments that are disturbed: seconds long, in many units, with checkpoints all the time."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .processes import Process

NETWORK = {"kind": "random", "devices": 300, "slots": 20}
OFTEN = {"checkpoint_seconds": 0.2}
OWN_SCHEDULER = """
import fedwave as fw

@fw.register
class Impatient(fw.Scheduler):
    name, needs = "impatient", {"channel", "backlog"}

    def priority(self, state, seen, draws):
        return seen.success * seen.waiting * seen.delay
"""
KINDS: dict[str, dict[str, Any]] = {
    "simulation": {
        "network": NETWORK,
        "schedulers": ["balsa", "max-weight"],
        "rounds": 200,
        "instances": 40,
        "block": 8,
        **OFTEN,
    },
    "sweep": {
        "network": NETWORK,
        "schedulers": ["alsa-pi", "age"],
        "rounds": 150,
        "instances": 24,
        "block": 8,
        "sweep": {"network.slots": [10, 20]},
        **OFTEN,
    },
    "own scheduler": {
        "network": NETWORK,
        "schedulers": ["impatient", "round-robin"],
        "rounds": 200,
        "instances": 40,
        "block": 10,
        **OFTEN,
    },
    "training": {
        "network": {"kind": "random", "devices": 6, "slots": 2},
        "schedulers": ["balsa", "update-aware"],
        "task": {"dataset": "synthetic", "model": "logistic", "epochs": 1},
        "training": {"tolerance": 0, "loss_images": 100, "test_images": 100},
        "rounds": 15,
        "instances": 2,
        "metric": "accuracy",
        **OFTEN,
    },
}


@dataclass(frozen=True)
class Undisturbed:
    """What a run gives that nobody disturbs."""

    folder: Path
    sums: str  # the text of SHA256SUMS
    names: frozenset[str]  # of all files
    printed: str  # on standard output, with DIR for the folder
    seconds: dict[int, float]  # how long a run takes, by number of workers; changes with the machine's other work

    @property
    def size(self) -> int:
        """Bytes that the folder takes in whole pages."""
        return sum(-(-file.stat().st_size // 4096) * 4096 for file in _files(self.folder))


class Experiments:
    """Files of experiments, and what they give undisturbed."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._undisturbed: dict[str, Undisturbed] = {}
        place.mkdir(parents=True)
        (place / "own.py").write_text(OWN_SCHEDULER)
        for kind, experiment in KINDS.items():
            text = json.dumps({"name": kind, **experiment})  # JSON is YAML
            self.file(kind).write_text(text)

    def undisturbed(self, kind: str) -> Undisturbed:
        """Run when it is needed first."""
        if kind not in self._undisturbed:
            self._undisturbed[kind] = self._run_undisturbed(kind)
        return self._undisturbed[kind]

    def file(self, kind: str) -> Path:
        return self.place / f"{kind.replace(' ', '-')}.yaml"

    def run(self, kind: str, folder: Path, *more: str) -> list[str]:
        """The words that begin a run, or go on with it."""
        return ["run", str(self.file(kind)), "--out", str(folder), *more, *self._imports(kind)]

    def go_on(self, kind: str, folder: Path, *more: str) -> list[str]:
        """The words that go on with it: `resume`, unless it was stopped before it wrote its experiment down."""
        if (folder / "run.json").exists():
            return ["resume", str(folder), *more, *self._imports(kind)]
        return self.run(kind, folder, *more)

    def _imports(self, kind: str) -> list[str]:
        return ["--import", str(self.place / "own.py")] if kind == "own scheduler" else []

    def _run_undisturbed(self, kind: str) -> Undisturbed:
        seconds, folders = {}, []
        for workers in (1, 2):
            folder = self.place / f"{kind} {workers}"
            start = time.monotonic()
            one = Process(self.run(kind, folder, "--workers", str(workers)), self.place / "log")
            one.wait(300)
            if one.status != 0:
                raise SystemExit(f"the undisturbed run of {kind} failed:\n{one.output()}")
            seconds[workers] = time.monotonic() - start
            folders.append(folder)
        first, second = ((folder / "SHA256SUMS").read_text() for folder in folders)
        if first != second:
            raise SystemExit(f"{kind}: one worker and two give different results.")
        shutil.rmtree(folders[0])
        folder = folders[1]
        return Undisturbed(folder, first, names_in(folder), one.printed(folder), seconds)


def names_in(folder: Path) -> frozenset[str]:
    """All files below a folder, hidden ones too."""
    return frozenset(file.relative_to(folder).as_posix() for file in _files(folder))


def _files(folder: Path) -> list[Path]:
    return [Path(place, name) for place, _, names in os.walk(folder) for name in names]
