"""Where the seconds go from `fedwave train` to the first trained round: `python -m benchmarks.startup [DATASET]`.

The stages of one run, one instance, in this process, in order; each has the name of what takes the time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stage(name: str) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    took = time.perf_counter() - wall, time.process_time() - cpu
    print(f"  {took[0]:6.2f} s ({took[1]:5.2f} of the processor)  {name}", flush=True)


def main(dataset: str) -> None:
    began = time.perf_counter()
    with stage("import the command line"):
        import fedwave as fw
        from fedwave.cli import app  # noqa: F401
        from fedwave.experiments.run import work  # noqa: F401
        from fedwave.parts.registry import build
    with stage("import torch"):
        import torch
    with stage("import the learning half"):
        from fedwave.learning.evaluation import EvaluationSizes
        from fedwave.learning.replay import Replay
        from fedwave.learning.schedule import labelled_runs
        from fedwave.learning.settings import Settings
    with stage("simulate 3 rounds"):
        trace = fw.simulate(fw.paper_network(), "alsa-pi", 3, 1)
    with stage("read the data"):
        data = build("dataset", dataset)
    with stage("try the model"):
        from fedwave.learning.task import PRESETS

        task = fw.task(dataset=data, **PRESETS[dataset])
    with stage("sum of the data, for the pins of a run folder"):
        from fedwave.experiments.store.inputs import arrays_sha256

        arrays_sha256(data)
    with stage("set up the replay"):
        replay = Replay(labelled_runs({"a": trace}), task, Settings(device="auto"), EvaluationSizes())
    for t in range(3):
        with stage(f"round {t + 1}"):
            replay.advance()
    where = "GPU" if torch.cuda.is_available() else "CPU"
    print(f"{dataset} on a {where}: {time.perf_counter() - began:.1f} s with three rounds")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "mnist")
