"""The measurement: all contenders play the same rounds in turns, so that a busy machine disturbs all alike."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.contenders import Contender, contenders
from benchmarks.peers.player import Player, PlayerFailed
from benchmarks.peers.work import Work
from fedwave.types import Array

# The largest distance from plain PyTorch's model after one round, relative to the change of the weights. Rounding makes
# 1e-5 of it, and 1e-2 where it opens a ReLU in one model and not in the other; one client's training in another order
# makes more. Later rounds amplify it.
_SAME = 3e-2


@dataclass
class Played:
    """The measurements of one contender; ``why`` it is unavailable, if it is."""

    contender: Contender
    why: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    weights: Mapping[str, Array] = field(default_factory=dict)  # after one round
    seconds: list[float] = field(default_factory=list)  # by repeat
    samples: list[int] = field(default_factory=list)
    memory: int | None = None
    difference: float | None = None  # from plain PyTorch after one round, relative to the change

    def to_json(self, plain: Played, rounds: int) -> dict[str, Any]:
        """Plain values; ratios to plain PyTorch are taken repeat by repeat."""
        one = self.contender
        about = {"name": one.name, "label": one.label, "available": self.why is None}
        if self.why is not None:
            return {**about, "why": self.why}
        return {
            **about,
            "versions": self.versions,
            "runs_side_by_side": one.runs,
            "times_plain": _spread([one.runs * b / a for a, b in zip(self.seconds, plain.seconds, strict=True)]),
            "rounds_per_second": _spread([one.runs * rounds / s for s in self.seconds]),
            "samples_per_second": _spread([n / s for n, s in zip(self.samples, self.seconds, strict=True)]),
            "samples": self.samples,
            "seconds": self.seconds,
            "memory_bytes": self.memory,
            "difference_after_one_round": self.difference,
        }


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


class Measurement:
    """Repeats of ``rounds`` rounds each, after a warm-up of as many; ``path`` is that of the work's file."""

    def __init__(self, work: Work, path: Path, rounds: int, repeats: int) -> None:
        self._work, self._path, self._rounds, self._repeats = work, path, rounds, repeats

    def section(self, device: str, threads: int, peers: Sequence[str]) -> dict[str, Any]:
        """Measures all contenders on one device, with the same number of cores; returns plain values.

        Raises PlayerFailed if plain PyTorch fails; any other contender that fails is unavailable.
        """
        found = [Played(contender) for contender in contenders(device, peers)]
        with ExitStack() as stack:
            players: dict[str, Player] = {}
            for one in found:
                words = [one.contender.player, str(self._path), str(threads), device, *one.contender.options]
                if one.contender.python.exists():
                    player = Player(one.contender.python, words, alone=one.contender.peer)
                    players[one.contender.name] = stack.enter_context(player)
                else:
                    one.why = "its environment is missing: make bench-peers"
            for repeat in range(self._repeats + 1):
                for one in found if repeat % 2 else found[::-1]:  # no contender is always the first
                    if one.why is None:
                        print(f"{one.contender.label}: {f'repeat {repeat}' if repeat else 'warm-up'}", file=sys.stderr)
                        try:
                            self._play(one, players[one.contender.name], repeat)
                        except PlayerFailed as error:
                            one.why = str(error)
                if found[0].why is not None:
                    raise PlayerFailed(found[0].why)
                if repeat == 0:
                    self._compare(found[0], [one for one in found if one.why is None])
        return {
            "device": device,
            "threads": threads if device == "cpu" else None,
            "ways": [one.to_json(found[0], self._rounds) for one in found],
        }

    def _play(self, one: Played, player: Player, repeat: int) -> None:
        """One turn of a contender; the first is the warm-up."""
        first, last = repeat * self._rounds, (repeat + 1) * self._rounds
        if repeat == 0:
            one.versions = player.versions()
            player.play(0, 1)
            one.weights = player.weights()
            if last > 1:
                player.play(1, last)
            return
        seconds, samples = player.play(first, last)
        one.seconds.append(seconds)
        one.samples.append(samples)
        one.memory = player.memory
        wanted = self._work.samples(first, last)
        if samples != wanted and not one.contender.skips:
            raise PlayerFailed(f"it trained on {samples:,} samples instead of {wanted:,}")

    def _compare(self, plain: Played, found: Sequence[Played]) -> None:
        """Puts out contenders whose central model after one round is not that of plain PyTorch."""
        change = _distance(plain.weights, self._work.weights)
        for one in found:
            one.difference = _distance(one.weights, plain.weights) / change
            if not one.difference < _SAME:
                one.why = f"its model after one round is another one ({one.difference:.1g} of the change)"


def _distance(a: Mapping[str, Array], b: Mapping[str, Array]) -> float:
    """The norm of the difference: a single ReLU that rounding opens in one model only hardly counts."""
    return float(np.sqrt(sum(float(np.square(a[name] - b[name]).sum()) for name in b)))
