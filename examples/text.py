"""A text classifier with an embedding: twelve phones learn to tell two kinds of messages from their words."""

import numpy as np
import torch
from torch import nn

import fedwave as fw

WORDS, LENGTH = 200, 12


def messages(samples: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Token ids ``[message, position]``, and the kind of each message: it prefers words of one half."""
    kinds = rng.integers(2, size=samples)
    prefers = rng.random((samples, LENGTH)) < 0.35
    own = rng.integers(WORDS // 2, size=(samples, LENGTH)) + kinds[:, None] * (WORDS // 2)
    return np.where(prefers, own, rng.integers(WORDS, size=(samples, LENGTH))), kinds


class Bag(nn.Module):
    """The mean of the words' vectors, then a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 16)
        self.out = nn.Linear(16, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(self.words(tokens).mean(dim=1))


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    data = fw.Dataset("messages", *messages(3000, rng), *messages(1000, rng))
    task = fw.task(dataset=data, model=Bag, optimizer="momentum:momentum=0.9", eta=0.1, epochs=3)
    network = fw.random_network(12, slots=3, seed=1)
    for name in ("alsa-pi", "round-robin"):
        trace = fw.simulate(network, name, rounds=40, instances=2, seed=1)
        curves = fw.train(trace, task)
        print(f"{name:12} mean backlog {trace.backlog.mean():5.1f}, accuracy {curves.accuracy[-1].mean():.3f}")
