"""Chooses the backends for a task: the fastest that support its model on this device and in this precision.

``of`` of a backend gives None for a model that it does not support; TorchBackend supports every model, and every loss
and optimizer.
"""

from __future__ import annotations

import torch

from fedwave.learning.backends.base import Backend, Precision
from fedwave.learning.backends.cpu.chain import NumbaBackend
from fedwave.learning.backends.gpu.backends import FusedBackend, WideBackend
from fedwave.learning.backends.torch import TorchBackend
from fedwave.learning.optimizers import Sgd
from fedwave.learning.task import Task


def choose(task: Task, precision: Precision, room: int = 0) -> tuple[Backend, Backend]:
    """The backend that trains and the backend that evaluates, often the same.

    ``room`` is the largest number of lanes that are trained at once, if it is known.
    """
    if not (task.is_usual and isinstance(task.optimizer, Sgd)):
        general = TorchBackend(task, precision)
        return general, general
    if precision.device.type == "cpu":
        on_cpu = NumbaBackend.of(task, precision) or TorchBackend(task, precision)
        return on_cpu, on_cpu
    torch.backends.cudnn.benchmark = True
    # Otherwise torch rounds the factors of a convolution to ten bits, although float32 is asked for.
    torch.backends.cudnn.allow_tf32 = False
    trains = FusedBackend.of(task, precision, task.batch, room) or WideBackend.of(task, precision, task.batch, room)
    evaluates = FusedBackend.of(task, precision) or WideBackend.of(task, precision)
    if trains and evaluates:
        return trains, evaluates
    general = TorchBackend(task, precision)
    return trains or general, evaluates or general
