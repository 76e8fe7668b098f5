"""Natural users: every device holds the samples of one person, in the order in which they were made."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import fedwave as fw

USERS, STEPS = 10, 300


def walks(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Speeds and slopes of the walks of ten people, their heart rates, and who they are; each has a rate of rest."""
    users = np.repeat([f"user {u}" for u in range(USERS)], STEPS)
    made = rng.normal(size=(USERS * STEPS, 2))
    rest = np.repeat(rng.normal(scale=0.3, size=USERS), STEPS)
    return made, made @ [0.8, 1.2] + rest + rng.normal(scale=0.2, size=len(made)), users


def huber(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """A loss of one's own: a number for each sample."""
    return F.huber_loss(outputs[:, 0], targets, reduction="none")


def within_half(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """A metric of one's own: the share of errors below a half."""
    return ((outputs[:, 0] - targets).abs() < 0.5).float()


within_half.better = "higher"

if __name__ == "__main__":
    rng = np.random.default_rng(0)
    inputs, rates, users = walks(rng)
    data = fw.Dataset("walks", inputs, rates, *walks(rng)[:2], owner=users)
    task = fw.task(dataset=data, model=lambda: nn.Linear(2, 1), loss=huber, metric=within_half, epochs=2)
    print(task)
    network = fw.random_network(USERS, slots=3, seed=1)
    for name in ("alsa-pi", "round-robin"):
        trace = fw.simulate(network, name, rounds=40, instances=2, seed=1)
        curves = fw.train(trace, task)
        print(f"{name:12} mean backlog {trace.backlog.mean():5.1f}, within a half {curves.within_half[-1].mean():.3f}")
