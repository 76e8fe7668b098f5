"""The seam of training: what a backend does, and where and in which number types it computes.

To add a backend, derive from ``Backend`` and add it to choose.py. tests/learning/test_equality.py compares every
backend with the reference trainer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from fedwave.learning.model_rows import ModelRows
from fedwave.learning.sampling import Batches
from fedwave.types import IntArray


@dataclass(frozen=True)
class Precision:
    """Where and in which number types to compute."""

    device: torch.device
    dtype: torch.dtype  # of parameters
    half: torch.dtype | None = None  # of layers, if they differ

    def autocast(self) -> torch.autocast:
        """The context that layers are computed in."""
        return torch.autocast(self.device.type, self.half, enabled=self.half is not None)


class Backend(ABC):
    """Trains and evaluates many models of one kind, which are rows of tensors."""

    needs_keys: bool  # whether lanes need keys, for random layers

    @abstractmethod
    def train(self, rows: ModelRows, batches: Batches, keys: IntArray) -> ModelRows:
        """Train each row as a lane; returns the models after training, in rows that the next call may overwrite.

        Lanes are sorted longest first. ``rows`` must not change. ``keys`` are those of random layers, ``[N]``.
        """

    @abstractmethod
    def logits(self, rows: ModelRows, images: Tensor) -> Tensor:
        """The outputs in evaluation mode, ``[model, image, class]``."""
