"""Who plays the rounds, and with which Python: other simulators clash with each other and with fedwave.

`make bench-peers` makes an environment for each, from NAME.txt, which lists all that is installed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / "out" / "peers"
_TOLERANCE = 1e-6  # as in the preset paper-mnist
_SIDE_BY_SIDE = 300  # the runs of the paper's experiment: 6 schedulers, 50 instances


@dataclass(frozen=True)
class Contender:
    """A program that plays the rounds: players/PLAYER.py, with its options."""

    name: str
    label: str
    player: str
    options: tuple[str, ...] = ()
    peer: bool = False  # runs in an environment of its own
    runs: int = 1  # played side by side
    skips: bool = False  # leaves out training that hardly counts

    @property
    def python(self) -> Path:
        """The Python that it plays with."""
        return ENVIRONMENTS / self.name / "bin" / "python" if self.peer else Path(sys.executable)


def _fedwave(name: str, label: str, tolerance: float, runs: int = 1) -> Contender:
    return Contender(name, label, "fedwave", (f"{tolerance:g}", str(runs)), runs=runs, skips=tolerance > 0)


PLAIN = Contender("plain", "plain PyTorch", "plain")
PEERS = {
    "pfl": Contender("pfl", "pfl-research", "pfl", peer=True),
    "flower": Contender("flower", "Flower", "flower", peer=True),
}
_OURS = [_fedwave("fedwave-all", "fedwave, skipping off", 0.0), _fedwave("fedwave", "fedwave, skipping on", _TOLERANCE)]
_MANY = _fedwave("fedwave-many", f"fedwave, skipping on, {_SIDE_BY_SIDE} runs", _TOLERANCE, _SIDE_BY_SIDE)


def contenders(device: str, peers: Sequence[str]) -> list[Contender]:
    """The contenders on a device; plain PyTorch comes first, because the others are compared with it."""
    if device == "cuda":  # the peers' environments are for the CPU
        return [PLAIN, *_OURS, _MANY]
    return [PLAIN, *(PEERS[name] for name in peers), *_OURS]
