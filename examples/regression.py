"""Regression on a table: twenty meters predict the energy that a house will use, by local Adam."""

import numpy as np
from torch import nn

import fedwave as fw


def table(samples: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Five columns (hour, outdoor temperature, ...), all scaled, and the energy."""
    columns = rng.normal(size=(samples, 5))
    energy = np.sin(columns[:, 0]) - 0.8 * columns[:, 1] + 0.5 * columns[:, 2] * columns[:, 3]
    return columns, energy + rng.normal(scale=0.1, size=samples)


def model() -> nn.Module:
    """One hidden layer."""
    return nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    houses = fw.Dataset("houses", *table(4000, rng), *table(1000, rng))
    task = fw.task(dataset=houses, model=model, loss="mse", metric="mae", optimizer="adam", eta=0.003, epochs=3)
    network = fw.random_network(20, slots=5, seed=1)
    for name in ("alsa-pi", "round-robin"):
        trace = fw.simulate(network, name, rounds=40, instances=2, seed=1)
        curves = fw.train(trace, task)
        print(f"{name:12} mean backlog {trace.backlog.mean():5.1f}, mean absolute error {curves.mae[-1].mean():.3f}")
