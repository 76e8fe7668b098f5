"""Local training on one CPU core: plain PyTorch, the lanes, and compiled chains, in one run (`make bench`).

The same work for each, in turns, so that a busy machine disturbs all alike: the CNN, batch 10, one model after another.
Seconds are those of the processor, not of the clock. Printed: ratios to plain PyTorch (median of the repeats, smallest
and largest), samples a second, microseconds of a step, evaluation, and how long compiling took.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F

from fedwave.learning.backends.base import Precision
from fedwave.learning.backends.cpu.chain import NumbaBackend
from fedwave.learning.backends.torch import TorchBackend
from fedwave.learning.datasets.synthetic import synthetic
from fedwave.learning.model_rows import Layout, ModelRows
from fedwave.learning.models import Cnn
from fedwave.learning.sampling import Batches
from fedwave.learning.task import Task
from fedwave.types import IntArray

MODELS, STEPS, BATCH, REPEATS = 8, 50, 10, 7
ETA = 0.01


def seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def plain(images: torch.Tensor, labels: torch.Tensor, steps: list[list[IntArray]]) -> None:
    """As ordinary users write it."""
    for mine in steps:
        model = Cnn()
        optimiser = torch.optim.SGD(model.parameters(), lr=ETA)
        for chosen in mine:
            samples = torch.as_tensor(chosen)
            optimiser.zero_grad()
            loss = F.cross_entropy(model(images[samples]), labels[samples])
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()


def training(task: Task, chain: NumbaBackend, layout: Layout) -> None:
    images = torch.as_tensor(task.dataset.train_inputs)
    labels = torch.as_tensor(task.dataset.train_targets)
    rng = np.random.default_rng(0)
    steps = [list(rng.integers(0, len(labels), (STEPS, BATCH))) for _ in range(MODELS)]
    model = task.new_model(0, 0)
    trainer = TorchBackend(task, Precision(torch.device("cpu"), torch.float32))
    start = ModelRows.of([model], layout).padded(MODELS)
    batches = Batches(np.array(steps), np.full((MODELS, STEPS), BATCH))
    keys = np.zeros(MODELS, np.int64)

    ways: dict[str, Callable[[], object]] = {
        "plain PyTorch": lambda: plain(images, labels, steps),
        "lanes": lambda: trainer.train(start, batches, keys),
        "compiled chain": lambda: chain.train(start, batches, keys),
    }
    for work in ways.values():
        work()
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(REPEATS):
        for name, work in ways.items():
            took[name].append(seconds(work))
    print(f"training of {MODELS} CNNs, {STEPS} steps of {BATCH} samples, one thread, {REPEATS} repeats")
    for name, times in took.items():
        ratios = [p / t for p, t in zip(took["plain PyTorch"], times, strict=True)]
        rate = MODELS * STEPS * BATCH / statistics.median(times)
        print(
            f"  {name:15s} {statistics.median(ratios):5.2f} x plain ({min(ratios):.2f} to {max(ratios):.2f}), "
            f"{rate:8,.0f} samples/s, {1e6 * BATCH / rate:6.0f} us a step"
        )


def evaluation(task: Task, chain: NumbaBackend, layout: Layout) -> None:
    model = task.new_model(0, 0).eval()
    rows = ModelRows.of([model], layout)
    images = torch.as_tensor(task.dataset.test_inputs[:1000])
    chain.logits(rows, images)
    ratios = []
    with torch.no_grad():
        for _ in range(REPEATS):
            theirs = seconds(lambda: [model(part) for part in torch.split(images, 500)])
            ratios.append(theirs / seconds(lambda: chain.logits(rows, images)))
    print(
        f"evaluation of {len(images)} images: {statistics.median(ratios):.2f} x torch in batches of 500 "
        f"({min(ratios):.2f} to {max(ratios):.2f})"
    )


def first_call() -> None:
    """In a process of its own: with an empty cache, then with the code cached."""
    code = (
        "import time, numpy as np; from benchmarks import cpu_chain as b; begin = time.process_time(); "
        "task, chain, layout = b.ready(); rows = b.ModelRows.of([task.new_model(0, 0)], layout); "
        "chain.train(rows, b.Batches(np.arange(10)[None, None], np.array([[10]])), np.zeros(1, np.int64)); "
        "print(time.process_time() - begin)"
    )
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        for what in ("compiled", "cached"):
            done = subprocess.run(
                [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
            )
            print(f"setting up and first step of a process, {what}: {float(done.stdout):.1f} s")


def ready() -> tuple[Task, NumbaBackend, Layout]:
    torch.set_num_threads(1)
    task = Task(synthetic(), Cnn, eta=ETA, batch=BATCH, prox=0.0)
    chain = NumbaBackend.of(task, Precision(torch.device("cpu"), torch.float32))
    assert chain is not None, "numba is missing"
    return task, chain, Layout(task.new_model(0, 0))


def main() -> None:
    task, chain, layout = ready()
    training(task, chain, layout)
    evaluation(task, chain, layout)
    first_call()


if __name__ == "__main__":
    main()
