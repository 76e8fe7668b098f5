"""What the players share: the work, the model, one client's training, the aggregation, and the talk with the benchmark.

It needs NumPy and PyTorch alone: the Python of a player may have neither fedwave nor the same versions.
"""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from importlib import metadata
from multiprocessing.connection import Connection

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

State = dict[str, Tensor]


class Work:
    """The rounds to play: who trains on what, and what is delivered."""

    def __init__(self, path: str) -> None:
        with np.load(path) as file:
            arrays = dict(file)
        self.eta, self.beta, self.batch = float(arrays["eta"]), float(arrays["beta"]), int(arrays["batch"])
        self.images = torch.from_numpy(arrays["images"])  # [sample, 1, 28, 28]
        self.labels = torch.from_numpy(arrays["labels"])
        self.samples = torch.from_numpy(arrays["samples"])  # of all clients and epochs, in the order of the steps
        self.first, self.counts = arrays["first"], arrays["counts"]  # [round, client]: places in samples
        self.delivered, self.coefficients = arrays["delivered"], arrays["coefficients"]  # [round, client]
        self.weights: State = {
            name.removeprefix("weights."): torch.from_numpy(array)
            for name, array in arrays.items()
            if name.startswith("weights.")
        }

    def clients(self, t: int) -> list[int]:
        """The clients of a round: those that train, and those whose earlier training is delivered."""
        found: list[int] = np.flatnonzero((self.counts[t] > 0) | self.delivered[t]).tolist()
        return found

    def samples_of(self, t: int, client: int) -> Tensor:
        """The samples that a client trains on in a round: those of all epochs, one batch after the other."""
        begin, count = int(self.first[t, client]), int(self.counts[t, client])
        return self.samples[begin : begin + count]

    def to(self, device: str) -> Work:
        """Moves images, labels and samples to a device."""
        self.images, self.labels = self.images.to(device), self.labels.to(device)
        self.samples = self.samples.to(device)
        return self


def new_model(weights: Mapping[str, Tensor]) -> nn.Sequential:
    """The paper's CNN with these weights."""
    layers: list[tuple[str, nn.Module]] = [
        ("conv1", nn.Conv2d(1, 10, 5)),
        ("pool1", nn.MaxPool2d(2)),
        ("relu1", nn.ReLU()),
        ("conv2", nn.Conv2d(10, 20, 5)),
        ("pool2", nn.MaxPool2d(2)),
        ("relu2", nn.ReLU()),
        ("flatten", nn.Flatten()),
        ("hidden", nn.Linear(320, 50)),
        ("relu3", nn.ReLU()),
        ("out", nn.Linear(50, 10)),
    ]
    model = nn.Sequential(OrderedDict(layers))
    model.load_state_dict(dict(weights))
    return model


def train_client(model: nn.Module, work: Work, t: int, client: int) -> int:
    """Local training as people write it: plain SGD, one batch after another. Returns the number of samples."""
    optimiser = torch.optim.SGD(model.parameters(), lr=work.eta)
    chosen = work.samples_of(t, client)
    images, labels = work.images[chosen], work.labels[chosen]
    for x, y in zip(torch.split(images, work.batch), torch.split(labels, work.batch), strict=True):
        optimiser.zero_grad()
        F.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return len(chosen)


class Server:
    """The paper's aggregation: an undelivered update waits, and its weight shrinks by beta every round."""

    def __init__(self, work: Work, central: State) -> None:
        self._work, self.central = work, central
        self._waiting: dict[int, State] = {}

    def finish(self, t: int, trained: Mapping[int, State]) -> None:
        """Computes the central model after a round from the models of the clients that trained in it."""
        work, start = self._work, self.central
        for waiting in self._waiting.values():
            for p in waiting.values():
                p.mul_(work.beta)
        for client, local in trained.items():
            change = {name: local[name] - p for name, p in start.items()}
            before = self._waiting.get(client)
            if before is not None:
                change = {name: p + before[name] for name, p in change.items()}
            self._waiting[client] = change
        self.central = {name: p.clone() for name, p in start.items()}
        for client in np.flatnonzero(work.delivered[t]).tolist():
            for name, p in self._waiting.pop(client, {}).items():
                self.central[name].add_(p, alpha=float(work.coefficients[t, client]))


def serve(
    bench: Connection,
    play: Callable[[int, int], int],
    weights: Callable[[], Mapping[str, Tensor]],
    packages: tuple[str, ...] = (),
) -> None:
    """Sends its versions, and then answers the benchmark until it sends None.

    ``play(first, last)`` plays rounds and returns the number of samples that were back-propagated.
    """
    versions = {name: metadata.version(name) for name in ("torch", *packages)}
    bench.send({"python": sys.version.split()[0], **versions})
    for question in iter(bench.recv, None):
        if question == "weights":
            bench.send({name: p.detach().cpu().numpy() for name, p in weights().items()})
        else:
            begin = time.perf_counter()
            samples = play(*question)
            bench.send((time.perf_counter() - begin, samples))
