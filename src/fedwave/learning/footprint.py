"""How much memory training takes, from the schedule and the task, before the first round."""

from __future__ import annotations

import gc

import numpy as np
import torch

from fedwave.learning.schedule import TrainingSchedule
from fedwave.learning.settings import COPIES, Settings
from fedwave.learning.task import Task
from fedwave.memory import check_memory, not_enough_memory, size_text

_OF_SAMPLE = 32  # bytes: random bits, the order, the samples in this order, and the batches


def sample_bytes(samples: float, epochs: int) -> float:
    """Bytes of the order in which a round's samples are trained on, in all epochs."""
    return samples * epochs * _OF_SAMPLE


def check_training_memory(
    task: Task, schedule: TrainingSchedule, settings: Settings, model: torch.nn.Module, kept: int
) -> None:
    """Raises FedwaveError if the largest round does not fit into the memory: the samples of its lanes, their models.

    ``kept`` is the largest number of undelivered gradients, and of models that devices keep of their own.
    """
    shards = (schedule.shards * schedule.needed).sum(axis=(1, 2))
    most, samples = schedule.most_lanes(), float(np.max(shards)) * task.shard_size
    lower = "lower shard_size, epochs or the rates, or train fewer runs together (block, group)"
    check_memory(
        f"a round with {samples:.3g} samples and {task.epochs:,} epochs of training",
        sample_bytes(samples, task.epochs),
        lower,
    )
    size = sum(p.numel() * p.element_size() for p in (*model.parameters(), *model.buffers()))
    # The central models, the models that devices keep, and the lanes at work.
    at_once = (COPIES + len(task.optimizer.start(0.0))) * min(settings.lanes or most, most)
    models = float(size) * (schedule.shards.shape[1] + kept + at_once)
    lower = "lower lanes, or train fewer runs together (block, group)"
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    what = f"training {most:,} models of {size_text(size)} in a round"
    if device.type != "cuda":
        check_memory(what, models, lower)
        return
    # Memory of an earlier training is free, but torch keeps it for itself.
    gc.collect()
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info(device)[0]
    if models > free:
        raise not_enough_memory(f"on the GPU, {what}", models, free, lower)
