"""The trained weights as a model again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiny import blobs, linear, with_batch_norm

import fedwave as fw
from fedwave.learning.task import Task


@pytest.mark.parametrize("make", [with_batch_norm, linear])
def test_the_trained_model_comes_back(make: Any) -> None:
    task = Task(blobs(), make, shard_size=4, batch=4, eta=0.1)
    trace = fw.simulate(fw.random_network(3, 2, seed=3, rate=1.0), "age", 4, 2)
    curves = fw.train(trace, task)
    images, labels = task.dataset.test_images, task.dataset.test_labels
    for i, weights in enumerate(curves.weights):
        guess = task.trained_model(weights)(torch.as_tensor(images)).argmax(dim=1).numpy()
        assert (guess == labels).mean() == pytest.approx(curves.accuracy[-1, i])
    _, alone = fw.train_in_lock_step(fw.random_network(3, 2, seed=3, rate=1.0), "age", task, 4, 2)
    for ours, theirs in zip(curves.weights, alone.weights, strict=True):
        assert ours.keys() == theirs.keys()
        assert all(np.allclose(ours[k], theirs[k], rtol=1e-4, atol=1e-5) for k in ours)
    with pytest.raises(fw.FedwaveError, match="do not fit the model"):
        task.trained_model({"weight": np.zeros(3)})
