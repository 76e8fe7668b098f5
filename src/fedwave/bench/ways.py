"""By whom the rounds are played, and what each is given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedwave.bench.environments import Peer

TOLERANCE = 1e-6  # as in the preset paper-mnist
SIDE_BY_SIDE = 300  # the runs of the paper's experiment: 6 schedulers, 50 instances


@dataclass(frozen=True)
class Way:
    """One way to play the rounds."""

    name: str
    label: str
    script: str
    settings: str  # what it is given beside its cores
    words: tuple[str, ...] = ()
    peer: Peer | None = None
    runs: int = 1  # played side by side

    def given(self, threads: int, device: str) -> str:
        """What it is given, in words."""
        cores = "one core" if threads == 1 else f"{threads} cores"
        return f"{'the GPU' if device == 'cuda' else cores}, float32, {self.settings}"


_DRAWN = "samples drawn beforehand"


def _fedwave(name: str, label: str, tolerance: float, runs: int = 1) -> Way:
    settings = "a thread per core; it draws the samples itself, in the measured time"
    return Way(name, label, "rounds_fedwave.py", settings, (f"{tolerance:g}", str(runs)), runs=runs)


PLAIN = Way("plain", "plain PyTorch", "rounds_plain.py", f"one thread, one client after another; {_DRAWN}")
_PFL = Way(
    "pfl",
    "pfl-research",
    "rounds_pfl.py",
    f"a worker process of one thread per core; {_DRAWN}",
    peer=Peer("pfl", "pfl==0.6.0", "pfl.txt"),
)
_FLOWER = Way(
    "flower",
    "Flower",
    "rounds_flower.py",
    f"the simulation engine with a Ray actor of one thread per core, replies looked for every 2 ms; {_DRAWN}",
    peer=Peer("flower", "flwr[simulation]==1.41.0", "flower.txt"),
)
_SKIPPING_OFF = _fedwave("fedwave-all", "fedwave, skipping off", 0.0)
_SKIPPING_ON = _fedwave("fedwave", "fedwave, skipping on", TOLERANCE)
_MANY = _fedwave("fedwave-many", f"fedwave, skipping on, {SIDE_BY_SIDE} runs", TOLERANCE, SIDE_BY_SIDE)


def ways(device: str, peers: bool) -> list[Way]:
    """Those of a section; plain PyTorch comes first, because the others are compared with it."""
    if device == "cuda":  # the pins of the peers' environments say nothing about CUDA
        return [PLAIN, _SKIPPING_OFF, _SKIPPING_ON, _MANY]
    return [PLAIN, *([_PFL, _FLOWER] if peers else []), _SKIPPING_OFF, _SKIPPING_ON]


def command(way: Way, python: Path, players: Path, work: Path, threads: int, device: str) -> list[str]:
    """The command that plays."""
    return [str(python), str(players / way.script), str(work), str(threads), device, *way.words]
