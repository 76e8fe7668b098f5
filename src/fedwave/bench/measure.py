"""The measurement: all ways play the same rounds in turns, so that a busy machine disturbs all alike."""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedwave.bench.environments import PLAYERS, NoEnvironment, python_of
from fedwave.bench.player import Player, PlayerFailed
from fedwave.bench.ways import PLAIN, Way, command, ways
from fedwave.bench.work import Work
from fedwave.types import Array

# After one round, relative to the change of the weights. Rounding makes 1e-5 of it, and 1e-2 where it opens a ReLU
# in one way and not in the other; one client's training in another order makes more. Later rounds amplify it.
_SAME = 3e-2


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    rounds: int  # a repeat
    repeats: int
    peers: bool  # measured where there is an environment
    make_peers: bool
    environments: Path

    @property
    def in_all(self) -> int:
        """Rounds, with those of the warm-up, which plays as many as a repeat."""
        return self.rounds * (self.repeats + 1)


@dataclass
class Played:
    """What came of one way; ``why`` it is unavailable, if it is."""

    way: Way
    given: str
    why: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)  # by repeat
    samples: list[int] = field(default_factory=list)
    memory: int | None = None
    difference: float | None = None  # from plain PyTorch after one round, relative to the change

    def to_json(self, plain: Played, rounds: int) -> dict[str, Any]:
        """Plain values; ratios are taken repeat by repeat."""
        about: dict[str, Any] = {
            "name": self.way.name,
            "label": self.way.label,
            "given": self.given,
            "available": self.why is None,
        }
        if self.why is not None:
            return {**about, "why": self.why}
        runs = self.way.runs
        pace = [runs * rounds / s for s in self.seconds]
        rate = [n / s for n, s in zip(self.samples, self.seconds, strict=True)]
        plain_pace = [rounds / s for s in plain.seconds]
        plain_rate = [n / s for n, s in zip(plain.samples, plain.seconds, strict=True)]
        return {
            **about,
            "versions": self.versions,
            "runs_side_by_side": runs,
            "times_plain": spread([a / b for a, b in zip(pace, plain_pace, strict=True)]),
            "rounds_per_second": spread(pace),
            "times_plain_per_sample": spread([a / b for a, b in zip(rate, plain_rate, strict=True)]),
            "samples_per_second": spread(rate),
            "samples": self.samples,
            "seconds": self.seconds,
            "memory_bytes": self.memory,
            "difference_after_one_round": self.difference,
        }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, smallest and largest."""
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def measure(
    work: Work, folder: Path, plan: Plan, threads: int, device: str, message: Callable[[str], None]
) -> dict[str, Any]:
    """One section: all ways on so many threads, or on the GPU. ``folder`` holds the work."""
    found = [Played(way, way.given(threads, device)) for way in ways(device, plan.peers)]
    with ExitStack() as stack:
        stack.enter_context(_on_cores(threads if device == "cpu" else None))
        players: dict[str, Player] = {}
        for one in found:
            try:
                python = _python(one.way, plan, message)
            except NoEnvironment as error:
                one.why = str(error)
                continue
            message(f"{one.way.label}: starting")
            environment = _environment(threads, own=one.way.peer is None)
            words = command(one.way, python, PLAYERS, folder, threads, device)
            players[one.way.name] = stack.enter_context(Player(words, environment))
        for repeat in range(plan.repeats + 1):
            turn = found if repeat % 2 else found[::-1]  # no way is always the first
            for one in turn:
                if one.why is None:
                    message(f"{one.way.label}: {f'repeat {repeat}' if repeat else 'warm-up'}")
                    _play(one, players[one.way.name], work, folder, plan, repeat)
            if repeat == 0:
                _compare(found, work, folder)
        for one in found:
            if one.why is None:
                one.memory = players[one.way.name].memory
    plain = next(one for one in found if one.way is PLAIN)
    if plain.why is not None:
        raise PlayerFailed(plain.why)
    return {
        "device": device,
        "threads": threads if device == "cpu" else None,
        "ways": [one.to_json(plain, plan.rounds) for one in found],
    }


def _play(one: Played, player: Player, work: Work, folder: Path, plan: Plan, repeat: int) -> None:
    """One turn of one way; whoever fails is out, and the others go on."""
    first, last = repeat * plan.rounds, (repeat + 1) * plan.rounds
    try:
        if repeat == 0:
            one.versions = player.ready()
            player.play(0, 1)
            player.weights(_weights(folder, one.way))
            if last > 1:
                player.play(1, last)
            return
        seconds, samples = player.play(first, last)
    except PlayerFailed as error:
        one.why = str(error)
        return
    one.seconds.append(seconds)
    one.samples.append(samples)
    if one.way.words[:1] in ((), ("0",)):  # nothing is skipped: then as many as there are
        wanted = int(work.run.shards[first:last].sum()) * work.task.shard_size * work.task.epochs
        if samples != wanted:
            one.why = f"it trained on {samples:,} samples instead of {wanted:,}"


def _weights(folder: Path, way: Way) -> Path:
    return folder / f"{way.name}.npz"


def _compare(found: Sequence[Played], work: Work, folder: Path) -> None:
    """Is the central model after one round the same in all ways?"""
    there = [one for one in found if one.why is None]
    models: dict[str, Mapping[str, Array]] = {}
    for one in there:
        with np.load(_weights(folder, one.way)) as file:
            models[one.way.name] = {name: file[name] for name in file.files}
    if PLAIN.name not in models:
        return
    wanted = models[PLAIN.name]
    change = _distance(wanted, work.weights)
    for one in there:
        one.difference = _distance(models[one.way.name], wanted) / change
        if not one.difference < _SAME:
            one.why = f"its model after one round is another one ({one.difference:.1g} of the change)"


def _distance(a: Mapping[str, Array], b: Mapping[str, Array]) -> float:
    """The norm of the difference: a single ReLU that rounding opens in one way only hardly counts."""
    return float(np.sqrt(sum(float(np.square(a[name] - b[name]).sum()) for name in b)))


def _python(way: Way, plan: Plan, message: Callable[[str], None]) -> Path:
    if way.peer is None:
        return Path(sys.executable)
    return python_of(way.peer, plan.environments, plan.make_peers, message)


def _environment(threads: int, own: bool) -> dict[str, str]:
    """The variables of a player: the same threads for every library; a peer does not see this Python's packages."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    # A player of plain PyTorch and the workers of the peers set one thread themselves.
    kept = {k: v for k, v in os.environ.items() if own or not k.startswith("PYTHON")}
    return {**kept, **dict.fromkeys(names, str(threads)), "PYTHONWARNINGS": "ignore"}


@contextmanager
def _on_cores(count: int | None) -> Iterator[None]:
    """Within the block, new processes get so many cores, where the system can do that; None: all."""
    if count is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    with suppress(OSError):
        os.sched_setaffinity(0, set(sorted(before)[-count:]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
