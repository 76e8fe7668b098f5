"""What is played: rounds of the paper's MNIST experiment, written out so that any program can play them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedwave.learning.sampling import batches
from fedwave.learning.schedule import Run, runs_of
from fedwave.learning.task import Task
from fedwave.learning.task import task as make_task
from fedwave.network.network import paper_network
from fedwave.simulation import simulate
from fedwave.trace import Trace
from fedwave.types import Array, FloatArray, IntArray

_BEHIND = 2  # rounds that are only simulated: in the last one fewer clients would have to train
_SETTING = "setting.json"


@dataclass(frozen=True)
class Setting:
    """The paper's network and task. Without the proximal term, which the others do not have."""

    dataset: str = "mnist"
    scheduler: str = "alsa-pi"
    rounds: int = 5  # that are played, with those of the warm-up
    seed: int = 0

    def task(self) -> Task:
        """25 clients learn the CNN: shards of 10 samples, batches of 10, 10 epochs."""
        return make_task(self.dataset, prox=0.0)

    def trace(self, instances: int = 1) -> Trace:
        """Who gets how much data, who is scheduled, and what is delivered."""
        return simulate(paper_network(), self.scheduler, self.rounds + _BEHIND, instances, self.seed)


def read_setting(folder: str | Path) -> Setting:
    """That of a folder that ``Work.write`` has written."""
    return Setting(**json.loads((Path(folder) / _SETTING).read_text()))


class Work:
    """The rounds of a setting."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.task, self._trace = setting.task(), setting.trace()
        self.run: Run = runs_of(self._trace)[0]
        assert self.run.heard.all(), "a client starts from the central model"

    @cached_property
    def weights(self) -> dict[str, Array]:
        """The central model before the first round."""
        model = self.task.new_model(self.run.seed, self.run.instance)
        return {name: p.detach().numpy() for name, p in model.named_parameters()}

    def write(self, folder: Path) -> None:
        """The files that players read (players/rounds_protocol.py)."""
        data, rounds = self.task.dataset, self.setting.rounds
        chosen, counts = self._samples()
        used, samples = np.unique(chosen, return_inverse=True)
        ends = np.cumsum(counts).reshape(counts.shape)
        arrays: dict[str, Array] = {
            "images": np.ascontiguousarray(data.train_images[used], np.float32),
            "labels": np.ascontiguousarray(data.train_labels[used], np.int64),
            "samples": samples.astype(np.int64),
            "first": ends - counts,
            "counts": counts,
            "delivered": self.run.delivered[:rounds],
            "coefficients": self._coefficients()[:rounds],
        }
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
        np.savez(folder / "weights.npz", **self.weights)  # type: ignore[arg-type]
        about = {
            "arrays": list(arrays),
            "eta": self.task.eta,
            "beta": self.task.aggregation.beta,
            "batch": self.task.batch,
        }
        (folder / "work.json").write_text(json.dumps(about))
        (folder / _SETTING).write_text(json.dumps(asdict(self.setting)))

    def about(self, warm_up: int) -> dict[str, Any]:
        """The work in plain values; means over the rounds after the warm-up."""
        measured, task, run = slice(warm_up, self.setting.rounds), self.task, self.run
        trained = run.shards[measured]
        return {
            "dataset": task.dataset.name,
            "model": task.model_name,
            "parameters": sum(p.size for p in self.weights.values()),
            "clients": trained.shape[1],
            "scheduler": self.setting.scheduler,
            "scheduled_per_round": float(run.scheduled[measured].sum(axis=1).mean()),
            "clients_that_train_per_round": float((trained > 0).sum(axis=1).mean()),
            "samples_per_round": float(trained.sum(axis=1).mean()) * task.shard_size * task.epochs,
            "shard_size": task.shard_size,
            "batch": task.batch,
            "epochs": task.epochs,
            "eta": task.eta,
            "prox": task.prox,
            "beta": task.aggregation.beta,
            "seed": self.setting.seed,
        }

    def _samples(self) -> tuple[IntArray, IntArray]:
        """The samples of all steps of all clients, one after the other, and how many each has: ``[T, U]``."""
        run, task, rounds = self.run, self.task, self.setting.rounds
        sampler, found = task.sampler(), []
        counts = np.zeros((rounds, run.shards.shape[1]), np.int64)
        for t in range(rounds):
            for u in np.flatnonzero(run.shards[t]).tolist():
                place = (run.seed, run.instance, t + 1, u)
                mine = sampler.shards(*place, int(run.shards[t, u]))
                steps = batches(mine, task.batch, task.epochs, *place)
                assert all(len(step) == task.batch for step in steps), "every batch is full"
                found += steps
                counts[t, u] = sum(map(len, steps))
        return np.concatenate(found), counts

    def _coefficients(self) -> FloatArray:
        return self.task.aggregation.coefficients(self.run.uploads(self.task.aggregation))
