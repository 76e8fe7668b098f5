"""Plays the rounds with pfl-research: `rounds_pfl.py WORK THREADS DEVICE`.

Its own backend, algorithm, model and datasets; one worker process per core, as its guide for fast simulations says.
What is added: the clients of each round, and the paper's aggregation as a postprocessor.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from rounds_protocol import Talk, Work, new_model, serve
from torch import Tensor, nn

_RANK, _ADDRESSES = "PFL_WORKER_RANK", "PFL_WORKER_ADDRESSES"


def main(folder: str, threads: str, device: str) -> None:
    """Answer the bench until it ends; the first worker starts the others and passes on what it is asked."""
    workers = int(threads)
    talk = Talk() if _RANK not in os.environ else None
    others = [] if talk is None else _other_workers(workers)
    torch.set_num_threads(1)
    os.environ["PFL_PYTORCH_DEVICE"] = device
    rounds = _Rounds(Work(folder), int(os.environ.get(_RANK, 0)), workers)
    if talk is None:
        for line in sys.stdin:
            first, last = map(int, line.split())
            rounds.play(first, last)
        return

    def play(first: int, last: int) -> int:
        for other in others:
            assert other.stdin is not None
            other.stdin.write(f"{first} {last}\n")
            other.stdin.flush()
        rounds.play(first, last)
        return int(rounds.work.counts[first:last].sum()) if workers > 1 else rounds.trained()

    serve(talk, play, rounds.weights, ("pfl",))
    for other in others:
        other.communicate()


def _other_workers(count: int) -> list[subprocess.Popen[str]]:
    """Workers 1, 2, ...; they and this one learn their places from the environment."""
    if count == 1:
        return []
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    os.environ[_ADDRESSES] = ",".join(f"localhost:{port + k}" for k in range(count))
    found = [
        subprocess.Popen(
            [sys.executable, *sys.argv],
            env={**os.environ, _RANK: str(rank)},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        for rank in range(1, count)
    ]
    os.environ[_RANK] = "0"
    return found


class _Rounds:
    """The rounds of one worker."""

    def __init__(self, work: Work, rank: int, workers: int) -> None:
        # Imported here: the library looks for the other workers when it is imported.
        from pfl.aggregate.simulate import SimulatedBackend
        from pfl.algorithm.base import NNAlgorithmParams
        from pfl.algorithm.federated_averaging import FederatedAveraging
        from pfl.data.dataset import Dataset
        from pfl.data.federated_dataset import FederatedDatasetBase
        from pfl.hyperparam.base import NNTrainHyperParams
        from pfl.metrics import Metrics, Weighted
        from pfl.model.pytorch import PyTorchModel
        from pfl.postprocessor.base import Postprocessor

        self.work, self._params = work, NNAlgorithmParams
        self._samples = 0
        rounds = self
        worker_of = _shared_out(work, workers)

        class Cohorts(FederatedDatasetBase):
            """The clients of the next round that this worker trains."""

            def __init__(self) -> None:
                super().__init__()
                self.round = 0

            def __next__(self) -> Any:
                raise NotImplementedError  # only whole cohorts are asked for

            def get_cohort(self, cohort_size: int) -> Iterator[tuple[Dataset, int]]:
                t, self.round = self.round, self.round + 1
                for client in work.clients(t):
                    if worker_of[client] == rank:
                        chosen = work.samples_of(t, client)
                        data = (work.images[chosen], work.labels[chosen])
                        yield Dataset(data, user_id=str(client)), 0

        class PaperRule(Postprocessor):
            """What is not delivered waits, and weighs beta of it a round later."""

            def __init__(self) -> None:
                self.round, self._waiting = 0, dict[int, tuple[int, list[Tensor]]]()

            def postprocess_one_user(self, *, stats: Any, user_context: Any) -> Any:
                client, t = int(user_context.user_id), self.round
                then, waiting = self._waiting.pop(client, (t, []))
                names = list(stats.keys())
                weight = work.beta ** (t - then)
                for name, before in zip(names, waiting, strict=False):
                    stats[name].add_(before, alpha=weight)
                if work.delivered[t, client]:
                    for name in names:
                        stats[name].mul_(float(work.coefficients[t, client]))
                else:
                    self._waiting[client] = t, [stats[name].clone() for name in names]
                    for name in names:
                        stats[name].zero_()
                return stats, Metrics()

            def postprocess_server(self, *, stats: Any, central_context: Any, aggregate_metrics: Any) -> Any:
                self.round += 1
                return stats, Metrics()

        class Summed(FederatedAveraging):
            """The postprocessor has weighted the updates: they are summed, not averaged."""

            def process_aggregated_statistics(
                self, central_context: Any, aggregate_metrics: Any, model: Any, statistics: Any
            ) -> Any:
                return model.apply_model_update(statistics)

        class Module(nn.Module):
            """The model with the methods that the library asks for."""

            def __init__(self) -> None:
                super().__init__()
                self.chain = new_model(work.weights)

            def loss(self, images: Tensor, labels: Tensor) -> Tensor:
                rounds._samples += len(images)
                return F.cross_entropy(self.chain(images), labels)

            def metrics(self, images: Tensor, labels: Tensor) -> dict[str, Any]:
                return {"samples": Weighted(len(images), 1)}  # asked for in round 0 alone

        module = Module()
        central = torch.optim.SGD(module.parameters(), lr=1.0)
        self._model = PyTorchModel(module, torch.optim.SGD, central)
        self._algorithm = Summed()
        self._backend = SimulatedBackend(Cohorts(), Cohorts(), postprocessors=[PaperRule()])
        self._training = NNTrainHyperParams(
            local_batch_size=work.batch, local_num_epochs=1, local_learning_rate=work.eta
        )

    def play(self, first: int, last: int) -> None:
        """Go on up to a round; nothing is evaluated after the first."""
        params = self._params(
            central_num_iterations=last,
            evaluation_frequency=10**9,
            train_cohort_size=len(self.work.counts[0]),
            val_cohort_size=None,
        )
        self._algorithm.run(params, self._backend, self._model, self._training, send_metrics_to_platform=False)

    def trained(self) -> int:
        """Samples that were trained on since the last call."""
        found, self._samples = self._samples, 0
        return found

    def weights(self) -> Mapping[str, Tensor]:
        """The central model."""
        return {name.removeprefix("chain."): p for name, p in self._model.get_parameters().items()}


def _shared_out(work: Work, workers: int) -> list[int]:
    """A worker for every client, all with about the same number of samples over all rounds."""
    load, found = np.zeros(workers), [0] * work.counts.shape[1]
    total = work.counts.sum(axis=0)
    for client in np.argsort(-total).tolist():
        found[client] = int(np.argmin(load))
        load[found[client]] += total[client]
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
