"""Local training and evaluation of many chains side by side on a GPU: samples per second over whole rounds.

python -m benchmarks.chain_steps
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np
import torch

from fedwave.learning.backends.base import Precision
from fedwave.learning.backends.choose import choose
from fedwave.learning.datasets.dataset import Dataset
from fedwave.learning.model_rows import Layout, ModelRows
from fedwave.learning.models import Cnn, Vgg19
from fedwave.learning.sampling import Batches
from fedwave.learning.task import Task

CASES = [
    # name, model, image, batch, epochs, lanes, evaluated models, precision
    ("CNN, 50 x 6 runs", Cnn, (1, 28, 28), 10, 10, 3000, 300, None),
    ("CNN, 10 x 6 runs", Cnn, (1, 28, 28), 10, 10, 600, 60, None),
    ("VGG19-BN, 3 x 6 runs", Vgg19, (3, 32, 32), 50, 5, 104, 18, torch.bfloat16),
    ("VGG19-BN, 2 x 6 runs", Vgg19, (3, 32, 32), 50, 5, 60, 12, torch.bfloat16),
]
REPEATS, IMAGES = 5, 10_000


def main() -> None:
    torch.zeros(1, device="cuda")
    print(torch.cuda.get_device_name(0), "torch", torch.__version__)
    for name, make, image, batch, epochs, lanes, models, half in CASES:
        data = torch.rand(IMAGES, *image).numpy(), torch.randint(0, 10, (IMAGES,)).numpy()
        task = Task(Dataset("random", *data, *data), make, batch=batch, epochs=epochs, eta=0.01, prox=0.0)
        model = task.new_model(0, 0).cuda()
        # Shards of one batch each: mostly few, sometimes many.
        shards = np.minimum(np.random.default_rng(1).geometric(0.37, size=lanes), 18)
        steps = np.sort(shards)[::-1] * epochs
        sizes = batch * (np.arange(steps[0]) < steps[:, None])
        batches = Batches(np.random.default_rng(2).integers(0, IMAGES, (lanes, int(steps[0]), batch)), sizes)
        start = ModelRows.of([model], Layout(model)).padded(lanes)
        torch.cuda.reset_peak_memory_stats()
        trains, evaluates = choose(task, Precision(torch.device("cuda"), torch.float32, half), room=lanes)
        seen = torch.as_tensor(data[0][: IMAGES if make is Cnn else 2000]).cuda()
        keys = np.zeros(lanes, np.int64)

        first, again = seconds(partial(trains.train, start, batches, keys))
        first_seen, seen_again = seconds(partial(evaluates.logits, start.rows(slice(models)), seen))
        total = int(steps.sum()) * batch
        least, most = total / max(again), total / min(again)
        print(
            f"{name} ({type(trains).__name__}, {lanes} lanes of up to {steps[0]} steps): "
            f"{total / median(again):,.0f} samples/s ({least:,.0f} to {most:,.0f}), "
            f"first round {first - median(again):.1f} s more; "
            f"{models} models on {len(seen)} images {median(seen_again):.3f} s (first {first_seen:.1f}); "
            f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB"
        )


def seconds(work: Callable[[], object]) -> tuple[float, list[float]]:
    """Of the first time, and of some more."""
    found = []
    for _ in range(1 + REPEATS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - begin)
    return found[0], found[1:]


if __name__ == "__main__":
    main()
