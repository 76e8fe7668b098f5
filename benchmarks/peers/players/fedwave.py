"""fedwave, with a thread per core. It draws the samples in the measured time: the others find them drawn."""

from __future__ import annotations

from multiprocessing.connection import Connection

import numpy as np
import torch

from benchmarks.peers.players.protocol import serve
from benchmarks.peers.work import task_of, trace_of
from fedwave.learning.evaluation import EvaluationSizes
from fedwave.learning.replay import Replay
from fedwave.learning.schedule import labelled_runs
from fedwave.learning.settings import Settings


def main(bench: Connection, path: str, threads: int, device: str, tolerance: str, runs: str) -> None:
    """Plays the rounds that it is asked for, in so many runs side by side."""
    torch.set_num_threads(threads)
    with np.load(path) as file:
        task, trace = task_of(str(file["dataset"])), trace_of(len(file["counts"]), int(runs))
    settings = Settings(device=device, tolerance=float(tolerance))
    # Nothing is evaluated: the smallest sizes.
    replay = Replay(labelled_runs({"run": trace}), task, settings, EvaluationSizes(1, 1))
    plan = replay.schedule
    shards = (plan.needed * plan.shards).sum(axis=(1, 2))  # [round]

    def play(first: int, last: int) -> int:
        assert replay.round == first, "rounds are played in order"
        for _ in range(first, last):
            replay.deliver(replay.train_round())
        if device == "cuda":
            torch.cuda.synchronize()
        return int(shards[first:last].sum()) * task.shard_size * task.epochs

    def weights() -> dict[str, torch.Tensor]:
        return {k: p[0] for k, p in replay.layout.views(replay.central.w).items()}

    serve(bench, play, weights, ("numpy",))
