"""Speed of the lane trainer against one model after another, and its agreement with the reference: `make bench`.

Uses a GPU if there is one. The agreement is the distance between the central parameters of the two trainers over
the distance the reference has come.
"""

from __future__ import annotations

import time

import numpy as np
import torch

import fedwave as fw
from fedwave.learning.data.dataset import Dataset, synthetic
from fedwave.learning.evaluation import EvaluationSizes, Evaluator
from fedwave.learning.lanes import Lane, LaneTrainer
from fedwave.learning.models import Cnn, Vgg19
from fedwave.learning.reference import train_run
from fedwave.learning.replay import Replay
from fedwave.learning.schedule import labelled_runs
from fedwave.learning.settings import Settings, available_device
from fedwave.learning.task import Task

DEVICE = available_device("auto")


def agreement(name: str, task: Task, precision: str, rounds: int) -> None:
    network = fw.random_network(4, 2, seed=3, rate=[0.4, 1.0, 1.0, 2.0])
    runs = labelled_runs({"alsa-pi": fw.simulate(network, "alsa-pi", rounds, 1, 5)})
    sizes = EvaluationSizes(100, 100)
    replay = Replay(runs, task, Settings(device=DEVICE, precision=precision, tolerance=0.0), sizes)
    start = {k: p.cpu().clone() for k, p in replay.states[0].w.items()}
    for _ in range(rounds):
        replay.advance()
    evaluator = Evaluator(task, sizes, torch.device("cpu"), torch.float32)
    w = train_run(runs[0], task, evaluator, torch.float32)[1]
    fast = {k: p.cpu() for k, p in replay.states[0].w.items()}
    off = sum(float(((w[k] - fast[k]) ** 2).sum()) for k in w) ** 0.5
    come = sum(float(((w[k] - start[k]) ** 2).sum()) for k in w) ** 0.5
    print(f"  {name}, {precision} on {DEVICE}: relative distance {off / come:.1e}", flush=True)


def speed(name: str, task: Task, lanes: int, precision: str, steps: int) -> None:
    device = torch.device(DEVICE)
    autocast = torch.bfloat16 if precision == "bfloat16" else None
    trainer = LaneTrainer(task, device, torch.float32, lanes, autocast)
    model = task.new_model(0, 0).to(device)
    w = {k: p.detach() for k, p in model.named_parameters()}
    b = {k: p.detach() for k, p in model.named_buffers()}
    rng = np.random.default_rng(0)

    def work(count: int) -> list[Lane]:
        size = len(task.dataset.train_labels)
        return [Lane(w, b, list(rng.integers(0, size, (count, task.batch)))) for _ in range(lanes)]

    trainer(work(2))
    jobs = work(steps)
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    trainer(jobs)
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    rate = lanes * steps * task.batch / (time.perf_counter() - start)
    print(f"  {name}, {lanes:>5} lanes, {precision}: {rate:>12,.0f} samples/s", flush=True)


def colour_images() -> Dataset:
    rng = np.random.default_rng(0)
    images = rng.normal(size=(600, 3, 32, 32)).astype(np.float32)
    return Dataset("noise", images[:500], np.arange(500) % 10, images[500:], np.arange(100) % 10)


def main() -> None:
    torch.backends.cudnn.allow_tf32 = False
    cnn = Task(synthetic(), Cnn)
    vgg = Task(colour_images(), Vgg19, shard_size=50, batch=50, epochs=5)
    small = DEVICE == "cpu"
    print("agreement with the reference trainer")
    agreement("CNN", cnn, "float32", 3 if small else 6)
    if not small:
        agreement("VGG19, batch norm", vgg, "float32", 3)
        agreement("VGG19, batch norm", vgg, "bfloat16", 3)
    print("speed of one SGD step in every lane")
    for lanes in (1, 25) if small else (1, 25, 250, 1000):
        speed("CNN", cnn, lanes, "float32", 20)
    if not small:
        for lanes in (1, 25, 100):
            speed("VGG19", vgg, lanes, "bfloat16", 10)


if __name__ == "__main__":
    main()
