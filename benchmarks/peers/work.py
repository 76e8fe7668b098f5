"""The work: rounds of the paper's MNIST experiment, written to a file that any program can read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedwave.learning.sampling import device_batches
from fedwave.learning.schedule import training_runs
from fedwave.learning.task import Task
from fedwave.learning.task import task as make_task
from fedwave.network.network import paper_network
from fedwave.simulation import simulate
from fedwave.trace import Trace
from fedwave.types import Array, FloatArray, IntArray

_SCHEDULER, _SEED = "alsa-pi", 0
_BEHIND = 2  # rounds that are only simulated: in the last one fewer clients would have to train


def task_of(dataset: str) -> Task:
    """The paper's task: shards of 10 samples, batches of 10, 10 epochs; without the proximal term, which is ours."""
    return make_task(dataset, prox=0.0)


def trace_of(rounds: int, instances: int = 1) -> Trace:
    """Who gets how much data, who is scheduled and what is delivered, on the paper's network."""
    return simulate(paper_network(), _SCHEDULER, rounds + _BEHIND, instances, _SEED)


class Work:
    """The rounds that are played: ``rounds`` of them, with those of the warm-up."""

    def __init__(self, dataset: str, rounds: int) -> None:
        self.task, self.rounds = task_of(dataset), rounds
        (self.run,) = training_runs(trace_of(rounds))
        assert self.run.heard.all(), "a client starts from the central model"
        model = self.task.new_model(self.run.seed, self.run.instance)
        self.weights: dict[str, Array] = {name: p.detach().numpy() for name, p in model.named_parameters()}

    def samples(self, first: int, last: int) -> int:
        """The number of samples that are back-propagated in some rounds, if no training is left out."""
        return int(self.run.shards[first:last].sum()) * self.task.shard_size * self.task.epochs

    def write(self, path: Path) -> None:
        """Writes the file that the players read (players/protocol.py)."""
        data = self.task.dataset
        chosen, counts = self._chosen()
        used, samples = np.unique(chosen, return_inverse=True)
        arrays: dict[str, Array] = {
            "dataset": np.array(data.name),
            "eta": np.array(self.task.eta),
            "beta": np.array(self.task.aggregation.beta),
            "batch": np.array(self.task.batch),
            "images": np.ascontiguousarray(data.train_inputs[used], np.float32),
            "labels": np.ascontiguousarray(data.train_targets[used], np.int64),
            "samples": samples.astype(np.int64),
            "first": np.cumsum(counts).reshape(counts.shape) - counts,
            "counts": counts,
            "delivered": self.run.delivered[: self.rounds],
            "coefficients": self._coefficients()[: self.rounds],
            **{f"weights.{name}": array for name, array in self.weights.items()},
        }
        np.savez(path, **arrays)  # type: ignore[arg-type]

    def about(self, warm_up: int) -> dict[str, Any]:
        """Describes the work; means are over the rounds after the warm-up."""
        task, measured = self.task, slice(warm_up, self.rounds)
        trained = self.run.shards[measured]
        return {
            "dataset": task.dataset.name,
            "model": task.model_name,
            "parameters": sum(p.size for p in self.weights.values()),
            "clients": trained.shape[1],
            "scheduler": _SCHEDULER,
            "scheduled_per_round": float(self.run.scheduled[measured].sum(axis=1).mean()),
            "clients_that_train_per_round": float((trained > 0).sum(axis=1).mean()),
            "samples_per_round": self.samples(warm_up, self.rounds) / len(trained),
            "shard_size": task.shard_size,
            "batch": task.batch,
            "epochs": task.epochs,
            "eta": task.eta,
            "prox": task.prox,
            "beta": task.aggregation.beta,
            "seed": _SEED,
        }

    def _chosen(self) -> tuple[IntArray, IntArray]:
        """The samples of all steps of all clients, one after the other, and how many each client has: ``[T, U]``."""
        run, task, found = self.run, self.task, list[IntArray]()
        devices = run.shards.shape[1]
        sampler, counts = task.sampler(devices), np.zeros((self.rounds, devices), np.int64)
        for t, u in np.argwhere(run.shards[: self.rounds] > 0).tolist():
            place = (run.seed, run.instance, t + 1, u)
            mine = sampler.shards(*place, int(run.shards[t, u]))
            steps = device_batches(mine, task.batch, task.epochs, *place)
            assert all(len(step) == task.batch for step in steps), "every batch is full"
            found += steps
            counts[t, u] = sum(map(len, steps))
        return np.concatenate(found), counts

    def _coefficients(self) -> FloatArray:
        return self.task.aggregation.coefficients(self.run.uploads(self.task.aggregation))
