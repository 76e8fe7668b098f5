"""Local training and judgement of many chains side by side on a GPU: samples per second over whole rounds.

python -m benchmarks.chain_steps
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch

from fedwave.learning.gpu.chain_steps import ChainEvaluator, ChainSteps
from fedwave.learning.layout import Layout
from fedwave.learning.models import Cnn, Vgg19
from fedwave.learning.state import carried_of, trained_of

CASES = [
    # name, model, image, batch, epochs, lanes, models and images of the judgement, precision
    ("CNN, 50 x 6 runs", Cnn, (1, 28, 28), 10, 10, 3000, 300, None),
    ("CNN, 10 x 6 runs", Cnn, (1, 28, 28), 10, 10, 600, 60, None),
    ("VGG19-BN, 3 x 6 runs", Vgg19, (3, 32, 32), 50, 5, 104, 18, torch.bfloat16),
    ("VGG19-BN, 2 x 6 runs", Vgg19, (3, 32, 32), 50, 5, 60, 12, torch.bfloat16),
]
REPEATS, IMAGES = 5, 10_000


def main() -> None:
    torch.zeros(1, device="cuda")
    print(torch.cuda.get_device_name(0), "torch", torch.__version__)
    for name, make, image, batch, epochs, lanes, models, autocast in CASES:
        torch.manual_seed(0)
        model = make().cuda()
        layout = Layout(model)
        images = torch.rand(IMAGES, *image, device="cuda")
        labels = torch.randint(0, 10, (IMAGES,), device="cuda")
        # Shards of one batch each: mostly few, sometimes many.
        shards = np.minimum(np.random.default_rng(1).geometric(0.37, size=lanes), 18)
        steps = np.sort(shards)[::-1] * epochs
        at_work = [int((steps > s).sum()) for s in range(int(steps[0]))]
        samples = torch.randint(0, IMAGES, (len(at_work), lanes, batch), device="cuda").int()
        start = layout.flat({k: p.expand(lanes, *p.shape) for k, p in trained_of(model).items()})
        w = start.clone()
        rest = {k: p.repeat(lanes, *[1] * p.ndim) for k, p in carried_of(model).items()}
        torch.cuda.reset_peak_memory_stats()
        train = ChainSteps(model, layout, images, labels, batch=batch, eta=0.01, autocast=autocast)
        judged = images[: IMAGES if make is Cnn else 2000]
        judge = ChainEvaluator(model, layout, judged, autocast=autocast)

        def one_round(train=train, w=w, start=start, rest=rest, samples=samples, at_work=at_work):
            w.copy_(start)
            train(w, start, rest, samples, at_work)

        def judgement(judge=judge, w=w, rest=rest, labels=labels, judged=judged, models=models):
            judge(w[:models], {k: p[:models] for k, p in rest.items()}, labels[: len(judged)], 10)

        first, again = seconds(one_round)
        first_judged, judged_again = seconds(judgement)
        total = int(steps.sum()) * batch
        least, most = total / max(again), total / min(again)
        print(
            f"{name} ({train.way}, {lanes} lanes of up to {steps[0]} steps): {total / median(again):,.0f} samples/s "
            f"({least:,.0f} to {most:,.0f}), first round {first - median(again):.1f} s more; {models} models on "
            f"{len(judged)} images {median(judged_again):.3f} s (first {first_judged:.1f}); "
            f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB, "
            f"of a place {(train.bytes_per_place or 0) / 2**20:.0f} MiB"
        )


def seconds(work: Callable[[], None]) -> tuple[float, list[float]]:
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
