"""What the lane trainer does on a GPU to keep the number of shapes small, tried on a CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import chain, images, own_forward, with_batch_norm
from torch import nn

from fedwave.learning.batched_layers import side_by_side
from fedwave.learning.lanes import Lane, LaneTrainer
from fedwave.learning.task import Task


@pytest.mark.parametrize("model", [chain, with_batch_norm])
@pytest.mark.parametrize("multiple", [2, 3, 16])
def test_idle_lanes_change_nothing(model: object, multiple: int) -> None:
    task = Task(images((1, 3, 4)), model, batch=4, eta=0.05)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    net = task.new_model(0, 0).double()
    start = {k: p.detach() for k, p in net.named_parameters()}
    buffers = {k: p.detach() for k, p in net.named_buffers()}
    sizes = ([4, 4, 4], [4], [4, 3], [4, 4], [3])
    lanes = [Lane(start, buffers, [rng.integers(0, 200, n) for n in lane]) for lane in sizes]
    plain = LaneTrainer(task, torch.device("cpu"), torch.float64, lanes=4)
    padded = LaneTrainer(task, torch.device("cpu"), torch.float64, lanes=4)
    padded._multiple = multiple
    for one, other in zip(plain(lanes), padded(lanes), strict=True):
        for state, same in zip(one, other, strict=True):
            for k in state:
                torch.testing.assert_close(state[k], same[k], rtol=1e-12, atol=1e-12)


def test_channels_last_changes_nothing_but_the_layout() -> None:
    task = Task(images((1, 3, 4)), chain, batch=4, eta=0.05)
    net = task.new_model(0, 0).double()
    start = {k: p.detach() for k, p in net.named_parameters()}
    buffers = {k: p.detach() for k, p in net.named_buffers()}
    lanes = [Lane(start, buffers, [np.arange(4), np.arange(4, 8)])] * 3
    plain = LaneTrainer(task, torch.device("cpu"), torch.float64, lanes=4)
    last = LaneTrainer(task, torch.device("cpu"), torch.float64, lanes=4)
    last._channels_last, last._forward = True, side_by_side(last._model, channels_last=True)
    for one, other in zip(plain(lanes), last(lanes), strict=True):
        for k in one[0]:
            torch.testing.assert_close(one[0][k], other[0][k], rtol=1e-12, atol=1e-12)


def test_only_known_chains_are_computed_side_by_side() -> None:
    assert side_by_side(chain()) is not None
    for unknown in (
        own_forward(),
        with_batch_norm(),  # has a BatchNorm1d
        nn.Sequential(nn.Conv2d(2, 2, 1, groups=2)),
        nn.Sequential(nn.Conv2d(2, 2, 1, padding_mode="circular")),
        nn.Sequential(nn.BatchNorm2d(2, momentum=None)),
        nn.Sequential(nn.BatchNorm2d(2, affine=False)),
        nn.Sequential(nn.Flatten(0)),
        nn.Sequential(nn.Dropout()),
        nn.Linear(2, 2),
    ):
        assert side_by_side(unknown) is None, unknown
