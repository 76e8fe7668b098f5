"""Aggregation rules to train with: every one of ours in every variant, and one of a user's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedwave.aggregation import Aggregation, Constant, FedAsync, FedBuff, Lee, Memory, Sync, Uploads
from fedwave.types import FloatArray


@dataclass(frozen=True)
class Momentum(Aggregation):
    """A server with heavy-ball momentum on the mean of the uploads; it counts rounds in a plain number."""

    name = "momentum"

    keep: float = 0.5
    beta: float = 0.8
    cap: float | None = None

    def weights(self, uploads: Uploads) -> FloatArray:
        count = uploads.delivered.sum(axis=-1, keepdims=True)
        return uploads.delivered / np.maximum(count, 1)

    def start(self, zero: Any) -> Memory:
        return {"velocity": zero, "rounds": 0}

    def server_step(self, memory: Memory, update: Any, uploads: Uploads) -> tuple[Memory, Any]:
        velocity = self.keep * memory["velocity"] + update
        rounds = memory["rounds"] + 1
        return {"velocity": velocity, "rounds": rounds}, velocity * (1 + 1 / rounds)


RULES: dict[str, Aggregation] = {
    "lee": Lee(0.3),
    "lee, capped": Lee(0.3, cap=2.0),
    "lee, nothing decays": Lee(1.0, cap=2.0),
    "constant": Constant(0.6),
    "constant, no step beyond the mean": Constant(1.0, stretch=1.0),
    "fedasync, constant": FedAsync(0.7, "constant"),
    "fedasync, hinge": FedAsync(0.7, "hinge", a=2.0, b=1.0),
    "fedasync, polynomial": FedAsync(0.7, "polynomial", a=0.8),
    "fedasync, capped": FedAsync(0.9, cap=2.0),
    "fedbuff, one is enough": FedBuff(1),
    "fedbuff, more than a round brings": FedBuff(5),
    "fedbuff, capped": FedBuff(3, beta=0.9, cap=4.0),
    "sync": Sync(),
    "sync, capped": Sync(cap=2.0, stretch=0.5),
    "a user's own": Momentum(),
}
