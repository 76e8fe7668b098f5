"""Steps per second of an environment, beside a loop of single ones and beside fw.simulate.

    python -m benchmarks.environment

A step is one round of one instance, on the paper's network with the priorities of max-weight. Each way is run
REPEATS times in turns; the median is printed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

import fedwave as fw

NETWORK = fw.paper_network()
ROUNDS, INSTANCES, REPEATS = 200, 64, 5


def simulated() -> None:
    """fw.simulate."""
    fw.simulate(NETWORK, "max-weight", ROUNDS, INSTANCES, record="summary")


def vectorised() -> None:
    """One environment of 64 instances."""
    play(fw.environment(NETWORK, INSTANCES, ROUNDS))


def one_by_one() -> None:
    """64 environments of one instance."""
    for _ in range(INSTANCES):
        play(fw.environment(NETWORK, 1, ROUNDS))


def play(env: fw.Environment) -> None:
    """An episode."""
    seen: Any = env.reset()
    done = False
    while not done:
        seen, _, done, _ = env.step(seen.success * seen.waiting)


def gymnasium_vector() -> None:
    """The native VectorEnv."""
    play_gymnasium("vector_entry_point")


def gymnasium_sync() -> None:
    """SyncVectorEnv of 64 environments."""
    play_gymnasium("sync")


def play_gymnasium(mode: str) -> None:
    """An episode of the features, with one action."""
    envs = gymnasium.make_vec(
        "fedwave/Scheduling-v0", INSTANCES, vectorization_mode=mode, network=NETWORK, rounds=ROUNDS
    )
    action = np.tile(np.linspace(-1, 1, NETWORK.size, dtype=np.float32), (INSTANCES, 1))
    envs.reset(seed=1)
    for _ in range(ROUNDS):
        envs.step(action)


def main() -> None:
    """Prints a line for each way."""
    gymnasium.register_envs(fw.rl)
    ways: list[Callable[[], None]] = [simulated, vectorised, one_by_one, gymnasium_vector, gymnasium_sync]
    seconds: dict[str, list[float]] = {way.__name__: [] for way in ways}
    for _ in range(REPEATS):
        for way in ways:
            start = time.perf_counter()
            way()
            seconds[way.__name__].append(time.perf_counter() - start)
    for way in ways:
        rate = ROUNDS * INSTANCES / statistics.median(seconds[way.__name__])
        print(f"{rate:9,.0f} steps/s  {(way.__doc__ or '').rstrip('.')}")


if __name__ == "__main__":
    main()
