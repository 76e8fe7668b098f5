"""How much memory training takes, from the schedule and the task, before the first round."""

from __future__ import annotations

import numpy as np
import torch

from fedwave.errors import FedwaveError
from fedwave.learning.schedule import Schedule
from fedwave.learning.task import Task
from fedwave.memory import check_memory, in_words

_OF_BATCH = 112  # bytes of an array object; its numbers are counted apart


def sample_bytes(samples: float, batch: int, epochs: int) -> float:
    """The order in which so many samples are trained on, in all epochs."""
    return samples * epochs * (8 + _OF_BATCH / batch)


def check_training(task: Task, schedule: Schedule, lanes: int, model: torch.nn.Module) -> None:
    """Refuse training whose largest round does not fit: the samples of its lanes, and their models."""
    jobs = schedule.needed.sum(axis=(1, 2))  # [T]: lanes of every round
    shards = (schedule.shards * schedule.needed).sum(axis=(1, 2))
    most, samples = int(np.max(jobs)), float(np.max(shards)) * task.shard_size
    lower = "lower shard_size, epochs or the rates, or train fewer runs together (block, group)"
    check_memory(
        f"a round with {samples:.3g} samples and {task.epochs:,} epochs of training",
        sample_bytes(samples, task.batch, task.epochs), lower,
    )  # fmt: skip
    size = sum(p.numel() * p.element_size() for p in (*model.parameters(), *model.buffers()))
    # The central models; psi and the result of every lane; start, weights and gradients of those at once.
    models = float(size) * (schedule.shards.shape[1] + 2 * most + 3 * min(lanes, most))
    lower = "lower lanes, or train fewer runs together (block, group)"
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    what = f"training {most:,} models of {in_words(size)} in a round"
    if device.type != "cuda":
        check_memory(what, models, lower)
        return
    free = torch.cuda.mem_get_info(device)[0]
    if models > free:
        raise FedwaveError(
            f"{what} needs about {in_words(models)} of GPU memory, but only {in_words(free)} is available: {lower}."
        )
