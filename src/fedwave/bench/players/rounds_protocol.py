"""What the players of the benchmark share: the work, the model, one client's training, and the talk with the bench.

A player is a program that plays the rounds in one way. It runs in the Python of what it measures, which may have
neither fedwave nor the same versions: this file needs NumPy and PyTorch alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

State = dict[str, Tensor]


class Work:
    """The rounds to play, as the bench has written them: who trains on what, and what is delivered."""

    def __init__(self, folder: str) -> None:
        place = Path(folder)
        about = json.loads((place / "work.json").read_text())
        self.eta, self.beta, self.batch = about["eta"], about["beta"], about["batch"]
        self.about: dict[str, Any] = about
        arrays = {name: np.load(place / f"{name}.npy") for name in about["arrays"]}
        self.images = torch.from_numpy(arrays["images"])  # [sample, 1, 28, 28]
        self.labels = torch.from_numpy(arrays["labels"])
        self.samples = torch.from_numpy(arrays["samples"])  # of all epochs, in the order of the steps
        self.first, self.counts = (arrays["first"], arrays["counts"])  # [round, client]: places in samples
        self.delivered, self.coefficients = arrays["delivered"], arrays["coefficients"]
        with np.load(place / "weights.npz") as weights:
            self.weights = {name: torch.from_numpy(weights[name]) for name in weights.files}

    def clients(self, t: int) -> list[int]:
        """Who takes part in a round: those who train, and those whose earlier training is delivered."""
        found: list[int] = np.flatnonzero((self.counts[t] > 0) | self.delivered[t]).tolist()
        return found

    def samples_of(self, t: int, client: int) -> Tensor:
        """The samples that a client trains on in a round: those of all epochs, one batch after the other."""
        begin, count = int(self.first[t, client]), int(self.counts[t, client])
        return self.samples[begin : begin + count]

    def to(self, device: str) -> Work:
        """The same with images, labels and samples on a device."""
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
    """Local training as people write it: plain SGD, one batch after another; returns the samples trained on."""
    optimiser = torch.optim.SGD(model.parameters(), lr=work.eta)
    chosen = work.samples_of(t, client)
    images, labels = work.images[chosen], work.labels[chosen]
    for x, y in zip(torch.split(images, work.batch), torch.split(labels, work.batch), strict=True):
        optimiser.zero_grad()
        F.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return len(chosen)


class Server:
    """The paper's aggregation: what is not delivered waits, and weighs beta of it a round later."""

    def __init__(self, work: Work, central: State) -> None:
        self._work, self.central = work, central
        self._waiting: dict[int, State] = {}

    def finish(self, t: int, trained: Mapping[int, State]) -> None:
        """The central model after a round; ``trained`` are the models of those who trained in it."""
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


class Talk:
    """The conversation with the bench: a line of JSON for a line of JSON."""

    def __init__(self) -> None:
        # Libraries print to standard output: it is kept for the answers, and theirs goes to standard error.
        self._answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def questions(self) -> Iterator[dict[str, Any]]:
        """What is asked, until the end."""
        for line in sys.stdin:
            question = json.loads(line)
            if question["ask"] == "end":
                return
            yield question

    def answer(self, **content: Any) -> None:
        """One line."""
        self._answers.write(json.dumps(content) + "\n")
        self._answers.flush()


def serve(
    talk: Talk,
    play: Callable[[int, int], int],
    weights: Callable[[], Mapping[str, Tensor]],
    packages: tuple[str, ...] = (),
) -> None:
    """Answer the bench; ``play(first, last)`` plays rounds and returns the samples that were back-propagated."""
    versions = {name: metadata.version(name) for name in ("torch", *packages)}
    talk.answer(versions={"python": sys.version.split()[0], **versions})
    for question in talk.questions():
        if question["ask"] == "play":
            begin = time.perf_counter()
            samples = play(question["first"], question["last"])
            talk.answer(seconds=time.perf_counter() - begin, samples=samples)
        else:
            found = {name: p.detach().cpu().numpy() for name, p in weights().items()}
            np.savez(question["path"], **found)  # type: ignore[arg-type]
            talk.answer(written=question["path"])
