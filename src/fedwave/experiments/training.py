"""Training the runs of an experiment: in this process, or its instances spread over several.

On a CPU one process per core, each with a single thread, beats threads that share every small step; and since
instances are independent, how they are spread changes nothing but the time.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.experiments.comparison import compare
from fedwave.network.network import Network
from fedwave.schedulers.base import Scheduler

if TYPE_CHECKING:
    from fedwave.learning.curves import Curves
    from fedwave.learning.evaluation import EvaluationSizes
    from fedwave.learning.replay import Settings
    from fedwave.learning.task import Task

_CHECKPOINT_SECONDS = 60
_played: Any = None  # in a worker: the count of rounds played, shared with the parent


@dataclass(frozen=True)
class Work:
    """What to train: schedulers on a network, a task, and how."""

    network: Network
    schedulers: Mapping[str, Scheduler]
    task: Task
    rounds: int
    instances: tuple[int, ...]
    seed: int
    settings: Settings
    sizes: EvaluationSizes
    folder: Path  # of the checkpoint


def train_work(work: Work, workers: int, meter: Callable[[int], None]) -> dict[str, Curves]:
    """The curves of every scheduler, by label; ``meter`` is told the rounds played."""
    shares = [part.tolist() for part in np.array_split(work.instances, workers) if part.size]
    if len(shares) <= 1:
        return train_share(work, meter)
    context = multiprocessing.get_context(
        "spawn"
    )  # a forked torch may wait for threads it has not got
    played = context.Value("q", 0)
    with ProcessPoolExecutor(len(shares), context, _begin_worker, (played,)) as pool:
        parts = [pool.submit(_train_in_worker, replace(work, instances=tuple(s))) for s in shares]
        _watch(parts, played, len(shares), meter)
        done = [part.result() for part in parts]
    return {label: _side_by_side([curves[label] for curves in done]) for label in work.schedulers}


def train_share(work: Work, meter: Callable[[int], None]) -> dict[str, Curves]:
    """Train in this process; goes on from the checkpoint in the folder if there is one."""
    from fedwave.learning import checkpoint
    from fedwave.learning.replay import Replay, labelled_runs

    traces = compare(
        work.network, work.schedulers, work.rounds, work.instances, work.seed, record="full"
    )
    replay = Replay(labelled_runs(traces), work.task, work.settings, work.sizes)
    # Named by its instances: with another number of workers the shares are others, and start anew.
    saved = work.folder / f"checkpoint-{work.instances[0]}-{work.instances[-1]}.npz"
    if saved.exists():
        checkpoint.load(replay, saved)
    meter(replay.round)
    last = time.monotonic()
    while replay.round < replay.rounds:
        replay.advance()
        meter(1)
        if time.monotonic() - last > _CHECKPOINT_SECONDS and replay.round < replay.rounds:
            checkpoint.save(replay, saved)
            last = time.monotonic()
    saved.unlink(missing_ok=True)
    return {curves.label: curves for curves in replay.curves()}


def _begin_worker(played: Any) -> None:
    from fedwave.learning.replay import use_threads

    global _played
    _played = played
    use_threads(1)


def _train_in_worker(work: Work) -> dict[str, Curves]:
    def count(rounds: int) -> None:
        with _played.get_lock():
            _played.value += rounds

    return train_share(work, count)


def _watch(
    parts: list[Future[Any]], played: Any, shares: int, meter: Callable[[int], None]
) -> None:
    """Pass progress on until all are done or one fails."""
    told = 0
    while wait(parts, timeout=0.5).done != set(parts):
        if any(part.done() and part.exception() for part in parts):
            return
        now = played.value // shares
        meter(now - told)
        told = now


def _side_by_side(parts: list[Curves]) -> Curves:
    """The instances of several shares in one Curves."""

    def joined(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts], axis=1)

    names = ("loss", "accuracy", "class_accuracy", "full_accuracy")
    return replace(parts[0], **{name: joined(name) for name in names})
