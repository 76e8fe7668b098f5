"""Speed of whole rounds of a replay: drawing, training, delivery, evaluation; `python -m benchmarks.replay --help`.

Samples count when they are back-propagated. A GPU is used if there is one; then the samples of the next round are drawn
while it trains, and "draw" is what is left of it.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise

import numpy as np
import torch

import fedwave as fw
from fedwave.learning.datasets.dataset import Dataset
from fedwave.learning.evaluation import EvaluationSizes
from fedwave.learning.models import Vgg19
from fedwave.learning.replay import Replay
from fedwave.learning.schedule import labelled_runs
from fedwave.learning.settings import Settings
from fedwave.learning.task import Task

SCHEDULERS = ("alsa-pi", "balsa", "balsa-po", "random", "round-robin", "bench")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("task", choices=("mnist", "cifar10", "synthetic", "noise"))
    asked.add_argument("--instances", type=int, default=50)
    asked.add_argument("--rounds", type=int, default=20)
    asked.add_argument("--precision", default="auto")
    asked.add_argument("--lanes", type=int)
    asked.add_argument("--schedulers", type=int, default=len(SCHEDULERS))
    asked.add_argument("--test-images", type=int, default=10_000)
    how = asked.parse_args()
    began = time.perf_counter()
    network = fw.paper_network()
    traces = {name: fw.simulate(network, name, how.rounds, how.instances, 0) for name in SCHEDULERS[: how.schedulers]}
    simulated = time.perf_counter()
    task = _noise() if how.task == "noise" else fw.task(how.task)
    loaded = time.perf_counter()
    settings = Settings(device="auto", precision=how.precision, lanes=how.lanes)
    replay = Replay(labelled_runs(traces), task, settings, EvaluationSizes(2000, how.test_images))
    _wait()
    ready = time.perf_counter()
    print(
        f"{how.task}, {how.instances} x {how.schedulers} runs, {replay.settings}: "
        f"simulation {simulated - began:.1f} s, data {loaded - simulated:.1f} s, replay {ready - loaded:.1f} s"
    )
    seconds = dict.fromkeys(("draw", "train", "deliver", "judge"), 0.0)
    samples = 0
    for t in range(how.rounds):
        times = [time.perf_counter()]
        lanes = replay.lanes_of_round()
        replay._ahead = t, lanes
        times.append(time.perf_counter())
        trained = replay.train_round()
        replay.draw_ahead()
        _wait()
        times.append(time.perf_counter())
        replay.deliver(trained)
        _wait()
        times.append(time.perf_counter())
        replay.evaluate()
        times.append(time.perf_counter())
        took = [after - before for before, after in pairwise(times)]
        if t == 0:
            print(f"  first round: {', '.join(f'{k} {s:.2f} s' for k, s in zip(seconds, took, strict=True))}")
            continue  # warm-up
        samples += int(lanes.batches.sizes.sum())
        for name, s in zip(seconds, took, strict=True):
            seconds[name] += s
    rounds = how.rounds - 1
    print("  a round: " + ", ".join(f"{k} {1000 * s / rounds:.0f} ms" for k, s in seconds.items()))
    whole = sum(seconds.values())
    print(
        f"  {samples / seconds['train']:,.0f} samples/s in training, "
        f"{samples / (whole - seconds['judge']):,.0f} over rounds without evaluation, "
        f"{samples / whole:,.0f} with it; {len(lanes.runs):,} lanes in the last round"
    )
    if torch.cuda.is_available():
        print(f"  {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB of GPU memory at most")
    loss = replay.results.loss[-1].mean()
    print(f"  mean loss {loss:.4f} after {how.rounds} rounds")


def _noise() -> Task:
    """VGG19 as on CIFAR-10, with images that need no file."""
    rng = np.random.default_rng(0)
    images = rng.normal(size=(6000, 3, 32, 32)).astype(np.float32)
    labels = np.arange(6000) % 10
    data = Dataset("noise", images[:4000], labels[:4000], images[4000:], labels[4000:])
    return Task(data, Vgg19, shard_size=50, batch=50, epochs=5)


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
