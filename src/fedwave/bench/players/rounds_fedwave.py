"""Plays the rounds with fedwave: `rounds_fedwave.py WORK THREADS DEVICE TOLERANCE RUNS`.

It draws the samples itself, in the measured time: the others find them drawn.
"""

from __future__ import annotations

import sys

import torch
from rounds_protocol import Talk, serve

from fedwave.bench.work import read_setting
from fedwave.learning.evaluation import EvaluationSizes
from fedwave.learning.replay import Replay
from fedwave.learning.schedule import labelled_runs
from fedwave.learning.settings import Settings


def main(folder: str, threads: str, device: str, tolerance: str, runs: str) -> None:
    """Answer the bench until it ends."""
    talk = Talk()
    torch.set_num_threads(int(threads))
    setting = read_setting(folder)
    task, trace = setting.task(), setting.trace(int(runs))
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

    serve(talk, play, weights, ("numpy",))


if __name__ == "__main__":
    main(*sys.argv[1:])
