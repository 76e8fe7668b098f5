"""The rounds with pfl-research's own backend, algorithm, model and datasets.

Added are the clients of each round, and the paper's aggregation as a postprocessor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDatasetBase
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from pfl.postprocessor.base import Postprocessor
from torch import Tensor, nn

from benchmarks.peers.players.protocol import Work, new_model


class Rounds:
    """The rounds of one worker."""

    def __init__(self, work: Work, rank: int, workers: int) -> None:
        self._module = _Module(work)
        central = torch.optim.SGD(self._module.parameters(), lr=1.0)
        self._model = PyTorchModel(self._module, torch.optim.SGD, central)
        self._algorithm = _Summed()
        mine = [client for client, worker in enumerate(_workers(work, workers)) if worker == rank]
        cohorts = _Cohorts(work, mine)
        self._backend = SimulatedBackend(cohorts, cohorts, postprocessors=[_PaperRule(work)])
        self._training = NNTrainHyperParams(
            local_batch_size=work.batch, local_num_epochs=1, local_learning_rate=work.eta
        )
        self._clients = work.counts.shape[1]

    def play(self, first: int, last: int) -> int:
        """Plays on to a round; returns the number of samples that this worker trained on. Nothing is evaluated."""
        self._module.samples = 0
        params = NNAlgorithmParams(
            central_num_iterations=last,
            evaluation_frequency=10**9,
            train_cohort_size=self._clients,
            val_cohort_size=None,
        )
        self._algorithm.run(params, self._backend, self._model, self._training, send_metrics_to_platform=False)
        return self._module.samples

    def weights(self) -> Mapping[str, Tensor]:
        """The central model."""
        return {name.removeprefix("chain."): p for name, p in self._model.get_parameters().items()}


class _Module(nn.Module):
    """The model with the methods that the library asks for."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.chain = new_model(work.weights)
        self.samples = 0

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        self.samples += len(images)
        return F.cross_entropy(self.chain(images), labels)

    def metrics(self, images: Tensor, labels: Tensor) -> dict[str, Any]:
        return {"samples": Weighted(len(images), 1)}  # asked for in round 0 alone


class _Cohorts(FederatedDatasetBase):
    """The clients of the next round that a worker trains."""

    def __init__(self, work: Work, mine: list[int]) -> None:
        super().__init__()
        self._work, self._mine, self._round = work, mine, 0

    def __next__(self) -> Any:
        raise NotImplementedError  # only whole cohorts are asked for

    def get_cohort(self, cohort_size: int) -> Iterator[tuple[Dataset, int]]:
        work, t = self._work, self._round
        self._round += 1
        for client in work.clients(t):
            if client in self._mine:
                chosen = work.samples_of(t, client)
                yield Dataset((work.images[chosen], work.labels[chosen]), user_id=str(client)), 0


class _PaperRule(Postprocessor):
    """The paper's aggregation: an undelivered update waits, and its weight shrinks by beta every round."""

    def __init__(self, work: Work) -> None:
        self._work, self._round = work, 0
        self._waiting: dict[int, tuple[int, list[Tensor]]] = {}

    def postprocess_one_user(self, *, stats: Any, user_context: Any) -> Any:
        work, client, t = self._work, int(user_context.user_id), self._round
        then, waiting = self._waiting.pop(client, (t, []))
        names = list(stats.keys())
        for name, before in zip(names, waiting, strict=False):
            stats[name].add_(before, alpha=work.beta ** (t - then))
        if work.delivered[t, client]:
            for name in names:
                stats[name].mul_(float(work.coefficients[t, client]))
        else:
            self._waiting[client] = t, [stats[name].clone() for name in names]
            for name in names:
                stats[name].zero_()
        return stats, Metrics()

    def postprocess_server(self, *, stats: Any, central_context: Any, aggregate_metrics: Any) -> Any:
        self._round += 1
        return stats, Metrics()


class _Summed(FederatedAveraging):
    """Sums the updates instead of averaging them: the postprocessor has weighted them."""

    def process_aggregated_statistics(
        self, central_context: Any, aggregate_metrics: Any, model: Any, statistics: Any
    ) -> Any:
        return model.apply_model_update(statistics)


def _workers(work: Work, workers: int) -> list[int]:
    """The worker of every client: all have about the same number of samples over all rounds."""
    load, found = np.zeros(workers), [0] * work.counts.shape[1]
    total = work.counts.sum(axis=0)
    for client in np.argsort(-total).tolist():
        found[client] = int(np.argmin(load))
        load[found[client]] += total[client]
    return found
